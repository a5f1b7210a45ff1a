//! One run, from its nodes to its verdict.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::{
    Settled, approvals, calls, checkpoints,
    digest::Receipts,
    duplicates::{self, Duplicates},
    elect::{Elected, Receipt, Versions},
    forest::{Forest, Node},
    identity::{self, Group, Name},
    messages::Messages,
    model::{Run, Step},
    order::{self, Class, Edge, Ordered},
    status,
    steps::{self, Draft},
    table::Table,
    tree, usage,
    verdict::Verdict,
};
use crate::{
    genai::operation::{Kind, OpStatus, Sequence},
    otlp::record::{Body, Record, SpanId, TraceId},
};

/// Records that belong to a run by name or by trace, and to none of its nodes.
pub(super) struct Shares<'a> {
    posted: HashMap<&'a str, Vec<&'a Versions>>,
    loose_logs: HashMap<TraceId, Vec<&'a Arc<Record>>>,
    /// The first run of each trace, which takes what belongs to no node.
    first_of_trace: HashMap<TraceId, &'a Name>,
}

impl<'a> Shares<'a> {
    /// Sorts out what belongs to no node.
    pub(super) fn new(forest: &'a Forest, groups: &'a BTreeMap<Name, Group>, elected: &'a Elected) -> Self {
        let mut shares =
            Self { posted: HashMap::new(), loose_logs: HashMap::new(), first_of_trace: HashMap::new() };
        for versions in &elected.checkpoints {
            if let Body::Checkpoint(checkpoint) = &versions.elected.body {
                shares.posted.entry(&checkpoint.run_id).or_default().push(versions);
            }
        }
        for log in &forest.loose_logs {
            shares.loose_logs.entry(log.trace_id()).or_default().push(log);
        }
        let mut first: HashMap<TraceId, (usize, &Name)> = HashMap::new();
        for (name, group) in groups {
            for node in group.nodes.iter().map(|n| &forest.nodes[*n]) {
                let found = (node.position, name);
                let _ =
                    first.entry(node.trace).and_modify(|least| *least = (*least).min(found)).or_insert(found);
            }
        }
        shares.first_of_trace = first.into_iter().map(|(trace, (_, name))| (trace, name)).collect();
        shares
    }
}

/// The run of a group; `None` when it holds no GenAI operation.
pub(super) fn assemble(
    forest: &Forest,
    name: &Name,
    group: &Group,
    shares: &Shares<'_>,
    settled: Settled<'_>,
) -> Option<Run> {
    let nodes = group.nodes.as_slice();
    if !nodes.iter().any(|n| forest.nodes[*n].op.kind.is_genai()) {
        return None;
    }
    let traces: BTreeSet<TraceId> = nodes.iter().map(|n| forest.nodes[*n].trace).collect();
    let settled = settled.holds(&traces);
    let duplicates = duplicates::find(forest, nodes);
    let mut drafts = steps::draft(forest, nodes, &duplicates);
    let edges = edges(forest, nodes, &mut drafts);
    let (mut drafts, left_out, index_of) = put_in_order(drafts, edges);
    let messages = intern(&mut drafts);
    parallel_groups(&mut drafts);

    let aliases = aliases(name, group);
    let posted = posted(name, &aliases, shares);
    let checkpoints = checkpoints::collect(forest, nodes, &drafts, &posted);
    let loose_logs = loose_logs(name, &traces, shares);
    let receipts = receipts(forest, nodes, &posted, &loose_logs);
    let (first_received_at, last_received_at) = receipts.span();
    let (usage, cost_source) = usage::total(forest, nodes, &drafts, &duplicates);
    let (tree, cut) = tree::tree(forest, nodes, &drafts, &duplicates);

    let mut verdict = Verdict::default();
    verdict.of_steps(forest, &drafts, paused(forest, nodes), settled);
    let step_of = drafts.iter().filter_map(|draft| Some((draft.node?, draft.step.index))).collect();
    verdict.of_nodes(forest, nodes, &step_of, settled);
    verdict.of_checkpoints(&checkpoints, settled);
    verdict.of_order(&drafts, &left_out, |draft| index_of.get(&draft).copied());
    if cut {
        verdict.of_run(
            "deep_tree",
            format!("the tree shows {} levels; what is deeper stands in the last", tree::LEVELS_MAX),
            None,
        );
    }
    for (trace, logs) in &loose_logs {
        let detail = format!("{} log records point to spans that never came", logs.len());
        verdict.of_run("uncorrelated_content", detail, Some(*trace));
    }
    let reasons = verdict.reasons();
    let (replayability, partial_reasons, notes) = verdict.close(&drafts);

    let steps: Vec<Step> = drafts.into_iter().map(|draft| *draft.step).collect();
    let (status, error) = status::status(forest, nodes, &steps, &reasons, settled);
    let (start_ns, end_ns) = extent(forest, nodes);
    let spans = nodes.iter().filter(|n| !forest.nodes[**n].is_log).count();
    Some(Run {
        run_id: name.1.clone(),
        rule: name.0,
        aliases,
        status,
        settled,
        start_ns,
        end_ns,
        messages,
        checkpoints,
        tree,
        steps_by_kind: steps.iter().fold(BTreeMap::new(), |mut kinds, step| {
            *kinds.entry(step.kind).or_default() += 1;
            kinds
        }),
        usage,
        cost_source,
        models: in_order(steps.iter().filter_map(|step| step.model.clone())),
        tools: in_order(steps.iter().filter(|s| is_tool(s)).map(|step| step.name.clone())),
        agents: agents(forest, nodes),
        conversation: prevailing(forest, nodes, |identity| identity.conversation.as_ref()),
        user: prevailing(forest, nodes, |identity| identity.user.as_ref()),
        thread: prevailing(forest, nodes, |identity| identity.thread.as_ref()),
        root_span_id: root(forest, nodes),
        span_count: u32::try_from(spans).unwrap_or(u32::MAX),
        service_names: in_order(nodes.iter().filter_map(|n| steps::service_name(&forest.nodes[*n]))),
        replayability,
        partial_reasons,
        notes,
        error,
        parent_run_id: prevailing(forest, nodes, |identity| identity.parent_run_id.as_ref()),
        record_digest: receipts.digest(),
        join_keys: join_keys(forest, nodes, &posted),
        source: source(forest, nodes, &duplicates, spans),
        first_received_at,
        last_received_at,
        trace_ids: traces.into_iter().filter(|trace| trace.is_valid()).collect(),
        steps,
    })
}

/// All edges of order; inferred steps are added to `drafts`. Numbers beyond the drafts are joints of sequences.
fn edges(forest: &Forest, nodes: &[usize], drafts: &mut Vec<Draft>) -> (Vec<Edge>, usize) {
    let output_tools = nodes.iter().map(|n| &forest.nodes[*n].op.tool).filter(|tool| tool.is_output);
    let output_tools = output_tools.filter_map(|tool| tool.name.clone()).collect();
    let mut edges = calls::tie(drafts, &output_tools);
    edges.extend(approvals::infer(forest, nodes, drafts));
    for (number, draft) in drafts.iter().enumerate() {
        edges.extend(draft.parent.map(|before| Edge { class: Class::Parent, before, after: number }));
    }
    let joints = sequences(forest, drafts, &mut edges);
    (edges, joints)
}

/// Edges between steps of one sequence: all of one position before all of the next, through a joint between them.
fn sequences(forest: &Forest, drafts: &[Draft], edges: &mut Vec<Edge>) -> usize {
    let mut series: BTreeMap<(&str, &str), BTreeMap<i64, Vec<usize>>> = BTreeMap::new();
    for (number, draft) in drafts.iter().enumerate() {
        let Some(node) = draft.node.map(|node| &forest.nodes[node]) else { continue };
        if let Some(Sequence { series: name, position }) = &node.op.sequence {
            let line = series.entry((node.record.origin.scope_name(), name)).or_default();
            line.entry(*position).or_default().push(number);
        }
    }
    let mut joint = drafts.len();
    for line in series.into_values() {
        let mut line = line.into_values().peekable();
        while let (Some(here), Some(next)) = (line.next(), line.peek()) {
            let class = Class::Sequence;
            edges.extend(here.iter().map(|before| Edge { class, before: *before, after: joint }));
            edges.extend(next.iter().map(|after| Edge { class, before: joint, after: *after }));
            joint += 1;
        }
    }
    joint - drafts.len()
}

/// Drafts in order and numbered; edges that were left out; the index of every former draft number.
fn put_in_order(
    drafts: Vec<Draft>,
    (edges, joints): (Vec<Edge>, usize),
) -> (Vec<Draft>, Vec<Edge>, HashMap<usize, u32>) {
    let ranks: Table<_> = drafts.iter().map(|draft| draft.rank).collect();
    let Ordered { order, left_out } = order::order(&ranks, joints, edges);
    let index_of: HashMap<usize, u32> = order.iter().copied().zip(0..).collect();
    let mut waiting: Vec<Option<Draft>> = drafts.into_iter().map(Some).collect();
    let mut ordered: Vec<Draft> =
        order.iter().filter_map(|n| waiting.get_mut(*n).and_then(Option::take)).collect();
    for (draft, index) in ordered.iter_mut().zip(0..) {
        draft.step.index = index;
        draft.step.parent_index = draft.parent.and_then(|up| index_of.get(&up).copied());
    }
    (ordered, left_out, index_of)
}

fn intern(drafts: &mut [Draft]) -> Vec<super::model::RunMessage> {
    let mut messages = Messages::default();
    for draft in drafts {
        let index = draft.step.index;
        draft.step.input_messages =
            std::mem::take(&mut draft.input).into_iter().map(|m| messages.intern(m, index)).collect();
    }
    messages.into_list()
}

/// Numbers the connected components of sibling steps whose open time intervals overlap.
fn parallel_groups(drafts: &mut [Draft]) {
    let mut siblings: BTreeMap<Option<u32>, Vec<(u64, u64, usize)>> = BTreeMap::new();
    for (number, draft) in drafts.iter().enumerate() {
        let step = &draft.step;
        if !step.inferred && step.start_ns != 0 && step.start_ns < step.end_ns {
            siblings.entry(step.parent_index).or_default().push((step.start_ns, step.end_ns, number));
        }
    }
    let mut components: Vec<Vec<usize>> = Vec::new();
    for mut steps in siblings.into_values() {
        steps.sort_unstable();
        let mut until = 0;
        for (start, end, number) in steps {
            match components.last_mut().filter(|_| start < until) {
                Some(component) => component.push(number),
                None => components.push(vec![number]),
            }
            until = until.max(end);
        }
    }
    components.retain(|component| component.len() > 1);
    components.sort_by_key(|component| component.iter().min().copied());
    for (component, group) in components.into_iter().zip(0..) {
        for number in component {
            if let Some(draft) = drafts.get_mut(number) {
                draft.step.parallel_group = Some(group);
            }
        }
    }
}

fn aliases(name: &Name, group: &Group) -> Vec<String> {
    let traces = group.whole_traces.iter().filter(|trace| trace.is_valid()).map(TraceId::to_string);
    let ids: BTreeSet<String> = group.claims.iter().map(|(_, id)| id.clone()).chain(traces).collect();
    ids.into_iter().filter(|id| *id != name.1).collect()
}

fn posted<'a>(name: &Name, aliases: &[String], shares: &Shares<'a>) -> Vec<&'a Versions> {
    let names = std::iter::once(&name.1).chain(aliases);
    names.filter_map(|id| shares.posted.get(id.as_str())).flatten().copied().collect()
}

fn loose_logs<'a>(
    name: &Name,
    traces: &BTreeSet<TraceId>,
    shares: &'a Shares<'_>,
) -> Vec<(TraceId, &'a [&'a Arc<Record>])> {
    let mine =
        traces.iter().filter(|t| t.is_valid() && shares.first_of_trace.get(t).is_some_and(|n| *n == name));
    mine.filter_map(|trace| Some((*trace, shares.loose_logs.get(trace)?.as_slice()))).collect()
}

fn receipts(
    forest: &Forest,
    nodes: &[usize],
    posted: &[&Versions],
    loose_logs: &[(TraceId, &[&Arc<Record>])],
) -> Receipts {
    let mut receipts = Receipts::default();
    receipts.extend(nodes.iter().flat_map(|n| forest.nodes[*n].receipts.iter().copied()));
    receipts.extend(posted.iter().flat_map(|versions| versions.receipts()));
    receipts.extend(loose_logs.iter().flat_map(|(_, logs)| logs.iter().map(|log| Receipt::of(log))));
    receipts
}

/// True when the record shows that the run was paused for a human.
fn paused(forest: &Forest, nodes: &[usize]) -> bool {
    nodes.iter().map(|n| &forest.nodes[*n].op).any(|op| op.status == OpStatus::Interrupted)
}

fn extent(forest: &Forest, nodes: &[usize]) -> (u64, u64) {
    let times = || nodes.iter().map(|n| &forest.nodes[*n]).map(|n| (n.start_ns, n.end_ns.max(n.start_ns)));
    let start = times().map(|(start, _)| start).filter(|ns| *ns != 0).min();
    (start.unwrap_or(0), times().map(|(_, end)| end).max().unwrap_or(0))
}

fn root(forest: &Forest, nodes: &[usize]) -> Option<SpanId> {
    let spans = || nodes.iter().map(|n| &forest.nodes[*n]).filter(|node| !node.is_log);
    let real = spans().find(|node| node.parent_id.is_none());
    real.or_else(|| spans().find(|node| node.parent.is_none())).map(|node| node.span)
}

fn is_tool(step: &Step) -> bool {
    step.kind == super::model::StepKind::ToolCall
}

fn agents(forest: &Forest, nodes: &[usize]) -> Vec<String> {
    let named = |node: &Node| match node.op.kind {
        Kind::Agent => Some(node.agent().to_owned()),
        _ => node.op.agent_name.clone().filter(|_| node.is_log),
    };
    in_order(nodes.iter().filter_map(|n| named(&forest.nodes[*n])))
}

/// Each value once, where it first stands.
fn in_order(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    values.filter(|value| !value.is_empty() && seen.insert(value.clone())).collect()
}

/// The most frequent value among the nodes; of equally frequent ones the first, so that the root wins.
fn prevailing(
    forest: &Forest,
    nodes: &[usize],
    of: impl Fn(&crate::genai::operation::Identity) -> Option<&String>,
) -> Option<String> {
    let mut counts: BTreeMap<&String, (usize, usize)> = BTreeMap::new();
    for (place, number) in nodes.iter().enumerate() {
        if let Some(value) = of(&forest.nodes[*number].op.identity).filter(|value| !value.is_empty()) {
            counts.entry(value).or_insert((0, place)).0 += 1;
        }
    }
    counts
        .into_iter()
        .min_by_key(|(_, (count, place))| (std::cmp::Reverse(*count), *place))
        .map(|(v, _)| v.clone())
}

fn join_keys(forest: &Forest, nodes: &[usize], posted: &[&Versions]) -> Vec<String> {
    let mut keys = BTreeSet::new();
    for number in nodes {
        identity::keys_of(&forest.nodes[*number], &mut keys);
    }
    for versions in posted {
        if let Body::Checkpoint(checkpoint) = &versions.elected.body {
            let _ = keys.insert(identity::run_key(&checkpoint.run_id));
        }
    }
    keys.into_iter().collect()
}

fn source(forest: &Forest, nodes: &[usize], duplicates: &Duplicates, spans: usize) -> &'static str {
    let speaks = |n: &usize| {
        let node = &forest.nodes[*n];
        node.is_log && !node.of_span && !duplicates.set_aside.contains(n)
    };
    match (spans > 0, nodes.iter().any(speaks)) {
        (true, false) => "spans",
        (true, true) => "mixed",
        (false, _) => "logs",
    }
}
