//! One call that several instrumentations report is one step (design section 4; `Duplicates`).
//!
//! Reports of one call are nested, or carry one response or tool call id, or come from different scopes at the same
//! time with the same model and output. A call inside a tool or a sub-agent is another call, however alike it looks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::{
    forest::{Forest, Node},
    messages::canonical,
    table::Sets,
};
use crate::{
    genai::{
        message::{Content, ContentState, Message, Part},
        operation::{Kind, OpStatus, Usage},
    },
    otlp::record::TraceId,
};

/// Which nodes of a run report what another node reports.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    /// A superseded node and the elected one.
    pub(super) superseded_by: BTreeMap<usize, usize>,
    /// An elected node and the others that report the same call, in depth-first order.
    pub(super) reports: BTreeMap<usize, Vec<usize>>,
    /// Nodes that only wrap several calls, and log records of calls that spans show: no step, superseded by none.
    pub(super) set_aside: BTreeSet<usize>,
}

impl Duplicates {
    /// True when the node is a report that does not speak for its call.
    pub(super) fn hides(&self, node: usize) -> bool {
        self.set_aside.contains(&node) || self.superseded_by.contains_key(&node)
    }
}

/// Finds the duplicates among `nodes`, which are in depth-first order.
pub(super) fn find(forest: &Forest, nodes: &[usize]) -> Duplicates {
    let calls: Vec<usize> = nodes.iter().copied().filter(|n| can_repeat(&forest.nodes[*n])).collect();
    let row_of: HashMap<usize, usize> = calls.iter().enumerate().map(|(row, node)| (*node, row)).collect();
    let mut sets = Sets::new(calls.len());
    let mut join = |a: usize, b: usize| {
        if let (Some(a), Some(b)) = (row_of.get(&a), row_of.get(&b)) {
            sets.join(*a, *b);
        }
    };
    let nested = nested(forest, nodes);
    let mut found = Duplicates::default();
    for (outer, inner) in &nested {
        let outer_node = &forest.nodes[*outer];
        let one_call = |n: &&usize| {
            let inner_node = &forest.nodes[**n];
            let told_so =
                shares_id(outer_node, inner_node) || (inner.len() == 1 && same_call(outer_node, inner_node));
            told_so && may_be_one(outer_node, inner_node)
        };
        let mut same = inner.iter().filter(one_call);
        match (same.next(), same.next()) {
            _ if outer_node.op.is_wrapper => {
                let _ = found.set_aside.insert(*outer);
            }
            (Some(one), None) => join(*outer, *one),
            _ if inner.len() > 1 && wraps(outer_node.op.kind) => {
                let _ = found.set_aside.insert(*outer);
            }
            _ => {}
        }
    }
    let free: Vec<usize> = calls.iter().copied().filter(|n| !found.set_aside.contains(n)).collect();
    for (a, b) in at_one_time(forest, &free).into_iter().chain(silent_siblings(forest, &free)) {
        join(a, b);
    }
    for (log, call) in logs_without_id(forest, &calls) {
        join(log, call);
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (row, node) in calls.iter().enumerate() {
        if !found.set_aside.contains(node) {
            groups.entry(sets.find(row)).or_default().push(*node);
        }
    }
    for group in groups.into_values().filter(|group| group.len() > 1) {
        let Some(elected) = group.iter().copied().max_by_key(|n| completeness(&forest.nodes[*n])) else {
            continue;
        };
        let others: Vec<_> = group.into_iter().filter(|n| *n != elected).collect();
        found.superseded_by.extend(others.iter().map(|n| (*n, elected)));
        let _ = found.reports.insert(elected, others);
    }
    set_aside_logs(forest, nodes, &mut found);
    found
}

/// The usage of a call: that of the innermost report which has one.
pub(super) fn usage_of(forest: &Forest, elected: usize, reports: &[usize]) -> (Usage, Option<String>) {
    let with_usage = reports.iter().chain([&elected]).filter(|n| !forest.nodes[**n].op.usage.is_empty());
    with_usage
        .max_by_key(|n| {
            let node = &forest.nodes[**n];
            (
                !node.is_log,
                node.depth,
                if node.is_log { counts(&node.op.usage) } else { 0 },
                **n == elected,
                node.position,
            )
        })
        .map(|n| (forest.nodes[*n].op.usage, forest.nodes[*n].op.cost_source.clone()))
        .map(|(usage, source)| complete(forest, usage, source, elected, reports))
        .unwrap_or_default()
}

/// What only another report of the call tells, as the log records of coding agents do: its cost, and parts of counts
/// that both tell alike.
fn complete(
    forest: &Forest,
    mut usage: Usage,
    mut source: Option<String>,
    elected: usize,
    reports: &[usize],
) -> (Usage, Option<String>) {
    for op in std::iter::once(&elected).chain(reports).map(|n| &forest.nodes[*n].op) {
        let told = op.usage;
        if usage.cost_usd.is_none() && told.cost_usd.is_some() {
            usage.cost_usd = told.cost_usd;
            source.clone_from(&op.cost_source);
        }
        if usage.input_tokens.is_some() && told.input_tokens == usage.input_tokens {
            usage.cache_read_tokens = usage.cache_read_tokens.or(told.cache_read_tokens);
            usage.cache_write_tokens = usage.cache_write_tokens.or(told.cache_write_tokens);
        }
        if usage.output_tokens.is_some() && told.output_tokens == usage.output_tokens {
            usage.reasoning_tokens = usage.reasoning_tokens.or(told.reasoning_tokens);
        }
    }
    (usage, source)
}

/// How many counts are known.
fn counts(usage: &Usage) -> usize {
    let all = [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    ];
    all.iter().flatten().count()
}

/// How much of a side was recorded; the greater, the more.
pub(super) fn worth(state: ContentState) -> u8 {
    match state {
        ContentState::Captured => 4,
        ContentState::Truncated => 3,
        ContentState::Inferred => 2,
        ContentState::Redacted | ContentState::External | ContentState::Unserializable => 1,
        ContentState::NotCaptured => 0,
    }
}

/// True when two tool names mean one tool: equal, or one with a server or a namespace before it.
pub(super) fn same_tool(a: &str, b: &str) -> bool {
    let ends = |long: &str, short: &str| {
        !short.is_empty()
            && long
                .strip_suffix(short)
                .is_some_and(|rest| rest.ends_with([':', '.', '/', ' ']) || rest.ends_with("__"))
    };
    a == b || ends(a, b) || ends(b, a)
}

fn can_repeat(node: &Node) -> bool {
    let kinds = [Kind::ModelCall, Kind::Embedding, Kind::Retrieval, Kind::Rerank, Kind::ToolCall];
    kinds.contains(&node.op.kind)
}

fn wraps(kind: Kind) -> bool {
    matches!(kind, Kind::ModelCall | Kind::Embedding | Kind::Retrieval)
}

/// For every call, the calls of the same kind directly below it, with nothing between but frames of a framework.
fn nested(forest: &Forest, nodes: &[usize]) -> BTreeMap<usize, Vec<usize>> {
    let mut open: HashMap<usize, usize> = HashMap::new();
    let mut nested: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for number in nodes {
        let node = &forest.nodes[*number];
        let enclosing = node.parent.and_then(|up| open.get(&up).copied());
        if can_repeat(node) {
            if let Some(outer) = enclosing.filter(|outer| forest.nodes[*outer].op.kind == node.op.kind) {
                nested.entry(outer).or_default().push(*number);
            }
            let _ = open.insert(*number, *number);
        } else if let (Some(outer), Kind::Internal | Kind::Foreign | Kind::Task) = (enclosing, node.op.kind) {
            let _ = open.insert(*number, outer);
        }
    }
    nested
}

/// Pairs that are not nested and still report one call: one id, or one model and output from different scopes.
fn at_one_time(forest: &Forest, calls: &[usize]) -> Vec<(usize, usize)> {
    let mut buckets: BTreeMap<(Kind, u8, [u8; 32]), Vec<usize>> = BTreeMap::new();
    let key = |text: String| *blake3::hash(text.as_bytes()).as_bytes();
    // Call ids mean something within a trace; a log record outside any belongs to the first that has its call.
    let loose = |node: &Node| node.is_log && !node.trace.is_valid();
    let mut trace_of: HashMap<&str, TraceId> = HashMap::new();
    for node in calls.iter().map(|n| &forest.nodes[*n]).filter(|node| !loose(node)) {
        if let Some(id) = &node.op.tool.call_id {
            let _ = trace_of.entry(id).or_insert(node.trace);
        }
    }
    for number in calls {
        let node = &forest.nodes[*number];
        let kind = node.op.kind;
        if let Some(id) = &node.op.response_id {
            buckets.entry((kind, 0, key(id.clone()))).or_default().push(*number);
        }
        if let Some(id) = node.op.tool.call_id.as_ref().filter(|_| kind == Kind::ToolCall) {
            let trace = trace_of.get(id.as_str()).filter(|_| loose(node)).unwrap_or(&node.trace);
            buckets.entry((kind, 1, key(format!("{trace} {id}")))).or_default().push(*number);
        }
        if let Some(output) = said(&node.op.output).filter(|_| kind == Kind::ModelCall) {
            buckets.entry((kind, 2, key(format!("{} {output}", node.trace)))).or_default().push(*number);
        }
    }
    let mut pairs = Vec::new();
    for ((_, how, _), mut bucket) in buckets {
        bucket.sort_by_key(|n| (forest.nodes[*n].order_ns, forest.nodes[*n].position));
        let mut last: Option<usize> = None;
        for number in bucket {
            let node = &forest.nodes[number];
            // The time of a log record is that of its writing: its ids say more.
            let timeless = |other: &usize| how != 2 && (node.is_log || forest.nodes[*other].is_log);
            let reaches = last.filter(|last| timeless(last) || forest.nodes[*last].end_ns >= node.order_ns);
            if let Some(other) = reaches {
                let one = &forest.nodes[other];
                if may_be_one(one, node) && (how != 2 || other_scope(one, node)) {
                    pairs.push((other, number));
                }
            }
            if last.is_none_or(|last| forest.nodes[last].end_ns < node.end_ns) {
                last = Some(number);
            }
        }
    }
    pairs
}

/// A call within the time of its sibling from another scope, of the same model and without any content of its own.
fn silent_siblings(forest: &Forest, calls: &[usize]) -> Vec<(usize, usize)> {
    let mut siblings: BTreeMap<(Option<usize>, Kind), Vec<usize>> = BTreeMap::new();
    for number in calls.iter().filter(|n| !forest.nodes[**n].is_log && wraps(forest.nodes[**n].op.kind)) {
        siblings
            .entry((forest.nodes[*number].parent, forest.nodes[*number].op.kind))
            .or_default()
            .push(*number);
    }
    let silent = |node: &Node| {
        let states = (node.op.input.state, node.op.output.state);
        states == (ContentState::NotCaptured, ContentState::NotCaptured)
    };
    let mut pairs = Vec::new();
    for ((parent, _), mut group) in siblings {
        if parent.is_none() || group.len() < 2 {
            continue;
        }
        group.sort_by_key(|n| (forest.nodes[*n].order_ns, std::cmp::Reverse(forest.nodes[*n].end_ns)));
        // The sibling that reaches farthest so far is the only one that can hold the next.
        let mut widest: Option<usize> = None;
        for number in group {
            let node = &forest.nodes[number];
            let around = widest.map(|n| (n, &forest.nodes[n])).filter(|(_, w)| w.end_ns >= node.end_ns);
            match around {
                Some((outer, wide)) if silent(node) => {
                    let usage = |n: &Node| (n.op.usage.input_tokens, n.op.usage.output_tokens);
                    let ((a, b), (c, d)) = (usage(wide), usage(node));
                    let counts = |x: Option<u64>, y: Option<u64>| x.is_none() || y.is_none() || x == y;
                    if (other_scope(wide, node) || says_nothing_else(wide))
                        && counts(a, c)
                        && counts(b, d)
                        && may_be_one(wide, node)
                    {
                        pairs.push((outer, number));
                    }
                }
                Some(_) => {}
                None => widest = Some(number),
            }
        }
    }
    pairs
}

/// Content alone: what was asked and answered, of nobody knows which model (LiveKit's node beside its request).
fn says_nothing_else(node: &Node) -> bool {
    node.op.request_model.is_none() && node.op.response_model.is_none() && node.op.usage.is_empty()
}

/// Calls that are looked at for a record of a call's beginning: more do not go on side by side.
const SIDE_BY_SIDE_MAX: usize = 64;

/// Log records of model calls that name no response: each belongs to the call that was begun last before it was written,
/// or, when it is written at the beginning, to the one that ends next.
fn logs_without_id(forest: &Forest, calls: &[usize]) -> Vec<(usize, usize)> {
    let model = |n: &&usize| forest.nodes[**n].op.kind == Kind::ModelCall;
    // A failure without an id is a call of its own: the call before it ended well.
    let nameless = |n: &&usize| {
        let node = &forest.nodes[**n];
        node.is_log && node.op.response_id.is_none() && node.op.status == OpStatus::Ok
    };
    let tells_counts = |n: &&usize| !forest.nodes[**n].op.usage.is_empty();
    let spans: Vec<usize> =
        calls.iter().filter(model).filter(|n| !forest.nodes[**n].is_log).copied().collect();
    // Where no span shows the calls, the record that counts the tokens stands for each.
    let mut begun = if spans.is_empty() {
        calls.iter().filter(model).filter(|n| !nameless(n) || tells_counts(n)).copied().collect()
    } else {
        spans
    };
    begun.sort_by_key(|n| (forest.nodes[*n].order_ns, forest.nodes[*n].position));
    let mut ended = begun.clone();
    ended.sort_by_key(|n| (forest.nodes[*n].end_ns, forest.nodes[*n].position));
    let mut pairs = Vec::new();
    for log in calls.iter().filter(model).filter(nameless) {
        let node = &forest.nodes[*log];
        if node.op.opens {
            let over = ended.partition_point(|n| forest.nodes[*n].end_ns < node.end_ns);
            let mut next = ended.iter().skip(over).take(SIDE_BY_SIDE_MAX);
            let call = next.find(|call| may_be_one(&forest.nodes[**call], node));
            pairs.extend(call.map(|call| (*log, *call)));
            continue;
        }
        let earlier = begun.partition_point(|n| forest.nodes[*n].order_ns <= node.end_ns);
        let last = begun.get(..earlier).and_then(<[usize]>::last).copied();
        if let Some(call) = last.filter(|call| call != log && may_be_one(&forest.nodes[*call], node)) {
            pairs.push((*log, call));
        }
    }
    pairs
}

/// Nothing that both say of the call differs.
fn may_be_one(a: &Node, b: &Node) -> bool {
    let (a_op, b_op) = (&a.op, &b.op);
    match a_op.kind {
        Kind::ToolCall => {
            let names = a_op.tool.name.as_deref().zip(b_op.tool.name.as_deref());
            let ids = a_op.tool.call_id.as_ref().zip(b_op.tool.call_id.as_ref());
            names.is_none_or(|(a, b)| same_tool(a, b))
                && ids.is_none_or(|(a, b)| a == b)
                && agree(&a_op.tool.arguments, &b_op.tool.arguments)
        }
        Kind::Retrieval => {
            a_op.retrieval_query.as_ref().zip(b_op.retrieval_query.as_ref()).is_none_or(|(a, b)| a == b)
        }
        _ => same_model(a, b) && said(&a_op.output).zip(said(&b_op.output)).is_none_or(|(a, b)| a == b),
    }
}

/// One outer and one inner call that may be one: do they count the same, or does one of them not count?
fn same_call(outer: &Node, inner: &Node) -> bool {
    let tokens = |node: &Node| {
        let usage = node.op.usage;
        usage.input_tokens.is_some().then_some((usage.input_tokens, usage.output_tokens))
    };
    let ids_differ =
        outer.op.response_id.as_ref().zip(inner.op.response_id.as_ref()).is_some_and(|(a, b)| a != b);
    match tokens(outer).zip(tokens(inner)) {
        Some((a, b)) => {
            a == b || said(&outer.op.output).is_some_and(|out| Some(out) == said(&inner.op.output))
        }
        None => !ids_differ,
    }
}

fn shares_id(a: &Node, b: &Node) -> bool {
    let same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
    same(&a.op.response_id, &b.op.response_id) || same(&a.op.tool.call_id, &b.op.tool.call_id)
}

fn other_scope(a: &Node, b: &Node) -> bool {
    a.record.origin.scope_name() != b.record.origin.scope_name()
}

fn models(node: &Node) -> Vec<String> {
    let bare = |model: &String| {
        let model = model.to_lowercase();
        model.rsplit('/').next().unwrap_or_default().to_owned()
    };
    [&node.op.response_model, &node.op.request_model].into_iter().flatten().map(bare).collect()
}

/// Equal models, or one a dated or shorter name of the other, or one of them unknown.
fn same_model(a: &Node, b: &Node) -> bool {
    let (a, b) = (models(a), models(b));
    let alike = |a: &String| b.iter().any(|b| a.starts_with(b.as_str()) || b.starts_with(a.as_str()));
    a.is_empty() || b.is_empty() || a.iter().any(alike)
}

/// What a model said, told so that two instrumentations tell it alike; `None` when nothing is known.
fn said(output: &Content<Vec<Arc<Message>>>) -> Option<String> {
    if output.state != ContentState::Captured {
        return None;
    }
    let mut text = String::new();
    for message in &output.value {
        text.push_str(message.text().trim());
        for part in &message.parts {
            if let Part::ToolCall { name, arguments, .. } = part {
                text.push('\u{1f}');
                text.push_str(name);
                text.push_str(&canonical(arguments.as_ref().unwrap_or(&Value::Null)));
            }
        }
    }
    (!text.is_empty()).then_some(text)
}

fn agree(a: &Content<Value>, b: &Content<Value>) -> bool {
    let both = a.state == ContentState::Captured && b.state == ContentState::Captured;
    // A wrapper may hold the arguments one level deeper.
    let holds = |outer: &Value, inner: &Value| match outer {
        Value::Object(map) => map.values().any(|value| value == inner),
        _ => false,
    };
    !both || a.value == b.value || holds(&a.value, &b.value) || holds(&b.value, &a.value)
}

/// The most complete content wins; among equals the innermost, then the first.
fn completeness(node: &Node) -> impl Ord + use<> {
    let op = &node.op;
    let (input, output) = match op.kind {
        Kind::ToolCall => (op.tool.arguments.state, op.tool.result.state),
        _ => (op.input.state, op.output.state),
    };
    let parts = |messages: &[Arc<Message>]| messages.iter().map(|m| m.parts.len()).sum::<usize>();
    let extent = (parts(&op.output.value), parts(&op.input.value), op.retrieval_documents.is_some());
    let first = (node.depth, std::cmp::Reverse(node.position));
    (!node.is_log, worth(output) + worth(input), extent, first)
}

/// Log records repeat calls that spans of the same service show: where a kind has spans, its log records are no steps.
fn set_aside_logs(forest: &Forest, nodes: &[usize], found: &mut Duplicates) {
    let shown: BTreeSet<Kind> =
        nodes.iter().map(|n| &forest.nodes[*n]).filter(|n| !n.is_log).map(|n| n.op.kind).collect();
    let repeated = |n: &&usize| {
        let node = &forest.nodes[**n];
        let kind = node.op.kind;
        // A check in a record judges the span that it points to; it repeats that only where that is the check.
        let is_check = matches!(kind, Kind::Evaluation | Kind::Guardrail);
        let of_check = || node.parent.is_some_and(|up| forest.nodes[up].op.kind == kind);
        node.is_log && shown.contains(&kind) && (!is_check || of_check())
    };
    found.set_aside.extend(nodes.iter().filter(repeated).filter(|n| !found.superseded_by.contains_key(*n)));
}
