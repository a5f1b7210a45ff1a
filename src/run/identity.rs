//! Which run a node belongs to, and under which name (design section 4, "Run identity").
//!
//! Traces tied by links form a cluster. In a cluster the strongest rule that is used counts, and of it only the ids on
//! the topmost nodes. Groups that end up with the same name are one run; a group whose name a stronger group also
//! carries joins that one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    forest::{Forest, Node},
    table::{Sets, Table},
};
use crate::{
    genai::operation::{Kind, OpStatus, Operation, Rule},
    otlp::record::{Record, RecordHash, SpanId, TraceId},
};

/// Longest run id that is taken, in bytes.
const RUN_ID_BYTES_MAX: usize = 256;

/// A run's name and the rule that found it. The order is the precedence.
pub(super) type Name = (Rule, String);

/// The nodes of one run.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Other names that its topmost nodes carry.
    pub(super) claims: BTreeSet<Name>,
    /// Node numbers, in depth-first order.
    pub(super) nodes: Vec<usize>,
    /// Traces that belong to this run alone.
    pub(super) whole_traces: BTreeSet<TraceId>,
}

/// Cuts the forest into runs. Every node is in exactly one group.
pub(super) fn groups(forest: &Forest) -> BTreeMap<Name, Group> {
    let mut groups: BTreeMap<Name, Group> = BTreeMap::new();
    for cluster in clusters(forest) {
        for (name, part) in split(forest, &cluster) {
            let group = groups.entry(name).or_default();
            group.claims.extend(part.claims);
            group.nodes.extend(part.nodes);
            group.whole_traces.extend(part.whole_traces);
        }
    }
    let mut groups = join_claimed(groups);
    for group in groups.values_mut() {
        group.nodes.sort_by_key(|n| forest.nodes[*n].position);
    }
    groups
}

/// Everything on this node that can tie its trace to another one.
pub(super) fn keys_of(node: &Node, keys: &mut BTreeSet<String>) {
    match unit(node) {
        Unit::Trace(trace) => keys.extend([trace_key(trace)]),
        Unit::Conversation(id) => keys.extend([format!("conversation:{id}")]),
        Unit::Named(_, id) => keys.extend([run_key(&id)]),
        Unit::Log(hash, _) => keys.extend([format!("log:{hash}")]),
    }
    if !node.trace.is_valid() {
        // The run reaches into the records outside any trace, which are looked up under the all-zero id.
        keys.extend([trace_key(node.trace)]);
    }
    keys_of_version(&node.record, &node.op, keys);
}

/// What one version of a span says of that, elected or not.
pub(super) fn keys_of_version(record: &Record, op: &Operation, keys: &mut BTreeSet<String>) {
    keys.extend(run_keys(op));
    keys.extend(op.identity.ties.iter().map(|tie| format!("tie:{tie}")));
    keys.extend(links(record, op).map(trace_key));
}

/// The keys of the run ids of an operation.
pub(super) fn run_keys(op: &Operation) -> impl Iterator<Item = String> {
    names(op).map(|(_, id)| run_key(id))
}

/// The key of everything that names the run `id`, under whatever rule.
pub(super) fn run_key(id: &str) -> String {
    format!("run:{id}")
}

/// The key of a trace.
pub(super) fn trace_key(trace: TraceId) -> String {
    format!("trace:{trace}")
}

/// The least thing that is never cut for want of a name: a trace, or log records outside any trace that say they belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Unit {
    Trace(TraceId),
    Named(Rule, String),
    Conversation(String),
    Log(RecordHash, SpanId),
}

fn unit(node: &Node) -> Unit {
    if !node.is_log || node.trace.is_valid() {
        return Unit::Trace(node.trace);
    }
    if let Some((rule, id)) = names(&node.op).min() {
        return Unit::Named(rule, id.to_owned());
    }
    let identity = &node.op.identity;
    match (&identity.conversation, &identity.simulation_id) {
        (Some(conversation), None) => Unit::Conversation(conversation.clone()),
        (Some(conversation), Some(simulation)) => Unit::Conversation(format!("{conversation}~{simulation}")),
        (None, _) => Unit::Log(node.record.hash, node.span),
    }
}

/// The usable run ids of an operation.
fn names(op: &Operation) -> impl Iterator<Item = (Rule, &str)> {
    op.identity.run_ids.iter().filter_map(|(rule, id)| {
        let fits = (1..=RUN_ID_BYTES_MAX).contains(&id.len()) && !id.chars().any(char::is_control);
        fits.then_some((*rule, id.as_str()))
    })
}

/// Traces that a node points to whose links may tie traces.
fn links<'a>(record: &'a Record, op: &Operation) -> impl Iterator<Item = TraceId> + use<'a> {
    let ties = op.identity.links_join || op.identity.links_resume;
    let links = record.as_span().filter(|_| ties).map(|span| span.links.iter());
    links.into_iter().flatten().map(|link| TraceId::from_slice(&link.trace_id)).filter(|t| t.is_valid())
}

/// Pairs of an agent and the agent of its own scope that it goes on with, by a link from root to root: the other was
/// interrupted, or a checkpoint is named. A link alone may only say what came before.
fn resumes(forest: &Forest) -> Vec<(usize, usize)> {
    let resuming = |node: &Node| node.op.identity.links_resume && !node.op.identity.links_join;
    if !forest.nodes.iter().any(resuming) {
        return Vec::new();
    }
    let mut roots: HashMap<(TraceId, SpanId), usize> = HashMap::new();
    let mut paused: BTreeSet<TraceId> = BTreeSet::new();
    for (number, node) in forest.nodes.iter().enumerate() {
        if matches!(node.op.kind, Kind::Agent | Kind::Workflow) && node.parent_id.is_none() {
            let _ = roots.insert((node.trace, node.span), number);
        }
        if node.op.status == OpStatus::Interrupted {
            let _ = paused.insert(node.trace);
        }
    }
    let mut pairs = Vec::new();
    for (number, node) in forest.nodes.iter().enumerate().filter(|(_, node)| resuming(node)) {
        let goes_on = node.op.checkpoints.iter().any(|checkpoint| !checkpoint.recorded);
        for link in node.record.as_span().into_iter().flat_map(|span| &span.links) {
            let id = (TraceId::from_slice(&link.trace_id), SpanId::from_slice(&link.span_id));
            let Some(target) = roots.get(&id).copied() else { continue };
            let of = |node: &Node| node.record.origin.scope_name().to_owned();
            if (goes_on || paused.contains(&id.0)) && of(node) == of(&forest.nodes[target]) {
                pairs.push((number, target));
            }
        }
    }
    pairs
}

/// Node numbers in depth-first order, a list for each set of units that links tie together.
fn clusters(forest: &Forest) -> Vec<Vec<usize>> {
    let mut numbers: HashMap<Unit, usize> = HashMap::new();
    let mut unit_of = Table::filled(0, forest.nodes.len());
    let mut linking = Table::default();
    for (number, node) in forest.nodes.iter().enumerate() {
        let next = numbers.len();
        let unit = *numbers.entry(unit(node)).or_insert(next);
        if unit == linking.len() {
            let _ = linking.push(false);
        }
        linking[unit] |= node.op.identity.links_join;
        unit_of[number] = unit;
    }
    let mut sets = Sets::new(numbers.len());
    for (number, node) in forest.nodes.iter().enumerate().filter(|(_, node)| node.op.identity.links_join) {
        for target in links(&node.record, &node.op) {
            if let Some(target) = numbers.get(&Unit::Trace(target)).filter(|target| linking[**target]) {
                sets.join(unit_of[number], *target);
            }
        }
    }
    for (resumed, target) in resumes(forest) {
        sets.join(unit_of[resumed], unit_of[target]);
    }
    // A log record outside any trace goes to the trace that has a span of the same call.
    let is_loose = |node: &Node| node.is_log && !node.trace.is_valid();
    let mut tied: HashMap<&str, usize> = HashMap::new();
    for (number, node) in forest.nodes.iter().enumerate().filter(|(_, node)| !is_loose(node)) {
        for tie in &node.op.identity.ties {
            let _ = tied.entry(tie).or_insert(unit_of[number]);
        }
    }
    for (number, node) in forest.nodes.iter().enumerate().filter(|(_, node)| is_loose(node)) {
        for unit in node.op.identity.ties.iter().filter_map(|tie| tied.get(tie.as_str())) {
            sets.join(unit_of[number], *unit);
        }
    }
    let mut clusters: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for node in &forest.walk {
        clusters.entry(sets.find(unit_of[*node])).or_default().push(*node);
    }
    clusters.into_values().collect()
}

/// Cuts a cluster into named groups.
fn split(forest: &Forest, cluster: &[usize]) -> Vec<(Name, Group)> {
    let mut tops = topmost(forest, cluster).into_iter();
    let Some((rule, tops_of_rule)) = tops.next() else {
        let whole =
            Group { nodes: cluster.to_vec(), whole_traces: traces(forest, cluster), ..Group::default() };
        return vec![(unnamed(forest, cluster), whole)];
    };
    let ids: BTreeSet<&str> = tops_of_rule.iter().map(|(_, id)| *id).collect();
    if ids.len() == 1 {
        let name = (rule, ids.into_iter().collect());
        let claims = tops.filter_map(|(rule, tops)| {
            let mut ids = tops.into_iter().map(|(_, id)| id);
            let first = ids.next()?;
            ids.all(|id| id == first).then(|| (rule, first.to_owned()))
        });
        let group = Group {
            claims: claims.collect(),
            nodes: cluster.to_vec(),
            whole_traces: traces(forest, cluster),
        };
        return vec![(name, group)];
    }
    several(forest, cluster, rule, &tops_of_rule)
}

/// For each rule in use, the nodes with an id that have no such node above them, in depth-first order.
fn topmost<'a>(forest: &'a Forest, cluster: &[usize]) -> BTreeMap<Rule, Vec<(usize, &'a str)>> {
    let mut tops: BTreeMap<Rule, Vec<(usize, &str)>> = BTreeMap::new();
    let mut covered: HashMap<usize, BTreeSet<Rule>> = HashMap::new();
    for number in cluster {
        let node = &forest.nodes[*number];
        let mut rules = node.parent.and_then(|up| covered.get(&up).cloned()).unwrap_or_default();
        for (rule, id) in names(&node.op) {
            if rules.insert(rule) {
                tops.entry(rule).or_default().push((*number, id));
            }
        }
        if !rules.is_empty() {
            let _ = covered.insert(*number, rules);
        }
    }
    tops
}

/// Several topmost nodes with different ids: each takes what is below it. What is above belongs to the first below it,
/// what is beside to the group of its parent, and the rest to the first of all.
fn several(forest: &Forest, cluster: &[usize], rule: Rule, tops: &[(usize, &str)]) -> Vec<(Name, Group)> {
    let mut owner: HashMap<usize, &str> = HashMap::new();
    for (top, id) in tops {
        let _ = owner.insert(*top, id);
        for above in forest.above(*top) {
            if owner.contains_key(&above) {
                break;
            }
            let _ = owner.insert(above, id);
        }
    }
    let first = tops.first().map_or("", |(_, id)| *id);
    let mut groups: BTreeMap<Name, Group> = BTreeMap::new();
    let mut users: BTreeMap<TraceId, BTreeSet<&str>> = BTreeMap::new();
    for number in cluster {
        let node = &forest.nodes[*number];
        let inherited = || node.parent.and_then(|up| owner.get(&up).copied()).unwrap_or(first);
        let id = owner.get(number).copied().unwrap_or_else(inherited);
        let _ = owner.insert(*number, id);
        let _ = users.entry(node.trace).or_default().insert(id);
        groups.entry((rule, id.to_owned())).or_default().nodes.push(*number);
    }
    for (trace, ids) in users {
        let mut ids = ids.into_iter();
        if let (Some(id), None) = (ids.next(), ids.next()) {
            let _ = groups.entry((rule, id.to_owned())).or_default().whole_traces.insert(trace);
        }
    }
    groups.into_iter().collect()
}

/// The name of a cluster in which no producer named a run.
fn unnamed(forest: &Forest, cluster: &[usize]) -> Name {
    let earliest = cluster.iter().map(|n| &forest.nodes[*n]).min_by_key(|n| (n.order_ns, n.trace, n.span));
    let Some(earliest) = earliest else { return (Rule::TraceId, String::new()) };
    let rule = if traces(forest, cluster).len() > 1 { Rule::Links } else { Rule::TraceId };
    match unit(earliest) {
        Unit::Trace(trace) => (rule, trace.to_string()),
        Unit::Conversation(id) => (Rule::ConversationPrompt, id),
        Unit::Named(rule, id) => (rule, id),
        Unit::Log(hash, _) => (Rule::TraceId, hash.to_string()),
    }
}

fn traces(forest: &Forest, nodes: &[usize]) -> BTreeSet<TraceId> {
    nodes.iter().map(|n| forest.nodes[*n].trace).collect()
}

/// A group joins the one group of a stronger name that also claims its name.
fn join_claimed(groups: BTreeMap<Name, Group>) -> BTreeMap<Name, Group> {
    let mut joined: BTreeMap<Name, Group> = BTreeMap::new();
    // `None`: two stronger groups claim the name, so it names neither.
    let mut claimed: BTreeMap<Name, Option<Name>> = BTreeMap::new();
    // Strongest rule first, so that a group's target is final when the group comes.
    for (name, group) in groups {
        let target = claimed.get(&name).cloned().flatten().unwrap_or_else(|| name.clone());
        for claim in group.claims.iter().filter(|claim| **claim != target) {
            let _ = claimed
                .entry(claim.clone())
                .and_modify(|by| *by = by.take().filter(|by| *by == target))
                .or_insert_with(|| Some(target.clone()));
        }
        let into = joined.entry(target.clone()).or_default();
        into.claims.extend(group.claims);
        into.nodes.extend(group.nodes);
        into.whole_traces.extend(group.whole_traces);
        if target != name {
            let _ = into.claims.insert(name);
        }
    }
    joined
}
