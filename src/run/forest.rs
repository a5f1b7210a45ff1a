//! The spans of a set of records as trees, one a root: parents, depth, depth-first positions.
//!
//! Everything here is iterative: a chain of spans may be as deep as a trace is long.

use std::{collections::HashMap, sync::Arc};

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, any_value},
    logs::v1::LogRecord,
};

use super::{
    Meaning,
    elect::{Elected, Receipt, Versions},
    table::Table,
};
use crate::{
    genai::{
        events::CHECKS,
        operation::{Kind, Operation},
    },
    otlp::record::{Body, Record, RecordHash, SpanId, TraceId},
};

/// Agents that a path names at most, outermost first; a deeper nesting is cut there.
const AGENT_PATH_MAX: usize = 64;

/// A span, or a log record that is an operation by itself, in its place.
#[derive(Debug)]
pub(super) struct Node {
    /// The elected record.
    pub(super) record: Arc<Record>,
    /// What it means.
    pub(super) op: Box<Operation>,
    /// Its trace; all zeros for a log record outside any trace.
    pub(super) trace: TraceId,
    /// Its span id; derived from the content of a log record.
    pub(super) span: SpanId,
    /// The parent it names, present or not.
    pub(super) parent_id: Option<SpanId>,
    /// The parent, when it is present and not below this very node.
    pub(super) parent: Option<usize>,
    /// Its children, by start time.
    pub(super) children: Vec<usize>,
    /// Number of nodes above it.
    pub(super) depth: u32,
    /// Its place in a depth-first walk over the whole forest.
    pub(super) position: usize,
    /// Start and end as recorded, nanoseconds since the Unix epoch; 0 when unknown or beyond i64.
    pub(super) start_ns: u64,
    /// See `start_ns`.
    pub(super) end_ns: u64,
    /// A start time to order by: the recorded one, else that of the parent, else the end.
    pub(super) order_ns: u64,
    /// Names of the agents above it, outermost first.
    pub(super) agents_above: Arc<[String]>,
    /// True for a log record.
    pub(super) is_log: bool,
    /// True for an event of a span, which stands here as the log record that it could have been.
    pub(super) of_span: bool,
    /// True when parent links formed a cycle that was cut above this node.
    pub(super) cycle: bool,
    /// True when two ended versions differ in kind, input or output.
    pub(super) conflict: bool,
    /// Versions that were not elected.
    pub(super) other_versions: Vec<RecordHash>,
    /// Receipts of its versions and of the log records that were joined to it.
    pub(super) receipts: Vec<Receipt>,
}

impl Node {
    /// The span's name, or the log record's event name.
    pub(super) fn name(&self) -> &str {
        match &self.record.body {
            Body::Span(span) => &span.name,
            Body::Log(log) => {
                let named =
                    log.attributes.iter().find(|a| a.key == "event.name").and_then(|a| a.value.as_ref());
                // The attribute first: some producers write the place in their source into the field.
                let field = Some(log.event_name.as_str()).filter(|name| !name.is_empty());
                let body = log.body.as_ref().and_then(text);
                named.and_then(text).or(field).or(body).unwrap_or_default()
            }
            Body::Checkpoint(_) => "",
        }
    }

    /// The agent's name, else the span's.
    pub(super) fn agent(&self) -> &str {
        self.op.agent_name.as_deref().unwrap_or_else(|| self.name())
    }

    /// The span's flags; 0 for a log record.
    pub(super) fn flags(&self) -> u32 {
        self.record.as_span().map_or(0, |span| span.flags)
    }

    /// True when it names a parent that is not there.
    pub(super) fn lost_parent(&self) -> bool {
        !self.is_log && !self.cycle && self.parent.is_none() && self.parent_id.is_some()
    }
}

/// All nodes of a set of records.
#[derive(Debug, Default)]
pub(super) struct Forest {
    /// The nodes, by trace id, span id.
    pub(super) nodes: Table<Node>,
    /// Node numbers in depth-first order: parents before children, siblings by start time.
    pub(super) walk: Vec<usize>,
    /// Log records that are no operation and whose span is not there.
    pub(super) loose_logs: Vec<Arc<Record>>,
}

impl Forest {
    /// Plants the elected records: joins logs to spans, reads meanings, links parents.
    pub(super) fn plant(elected: &Elected, meaning: &Meaning) -> Self {
        let mut logs_of: HashMap<(TraceId, SpanId), Vec<&Record>> = HashMap::new();
        for log in &elected.logs {
            logs_of.entry((log.trace_id(), log.span_id())).or_default().push(log);
        }
        let mut forest = Self::default();
        let mut by_id: HashMap<(TraceId, SpanId), usize> = HashMap::new();
        for versions in &elected.spans {
            let id = (versions.elected.trace_id(), versions.elected.span_id());
            let logs = logs_of.get(&id).map(Vec::as_slice).unwrap_or_default();
            let node = span_node(versions, logs, meaning);
            let checks = checks_of(&versions.elected);
            let checks =
                checks.filter_map(|log| Some((log_node(&log, (meaning.log)(&log)?, false), log.hash)));
            let mut checks: Vec<_> = checks.filter(|(check, _)| check.op.kind != node.op.kind).collect();
            checks.sort_by_key(|(_, hash)| *hash);
            checks.dedup_by_key(|(_, hash)| *hash);
            let _ = by_id.insert(id, forest.nodes.push(node));
            for (check, _) in checks {
                let _ = forest.nodes.push(Node { of_span: true, ..check });
            }
        }
        for log in &elected.logs {
            let spoken_for = by_id.contains_key(&(log.trace_id(), log.span_id()));
            match (meaning.log)(log).filter(|op| !(op.is_of_span && spoken_for)) {
                Some(op) => {
                    let _ = forest.nodes.push(log_node(log, op, !spoken_for));
                }
                None if !spoken_for => forest.loose_logs.push(Arc::clone(log)),
                None => {}
            }
        }
        forest.replace_placeholders(&by_id);
        forest.link(&by_id);
        forest.cut_cycles();
        forest.settle_positions();
        forest
    }

    /// The nodes above `node`, nearest first.
    pub(super) fn above(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.nodes[node].parent, |up| self.nodes[*up].parent)
    }

    /// A placeholder is nothing once its span is there; until then it stands where its span will.
    fn replace_placeholders(&mut self, by_id: &HashMap<(TraceId, SpanId), usize>) {
        for node in self.nodes.iter_mut() {
            let Some(parent_of_span) = node.op.begins.take() else { continue };
            if node.parent_id.is_some_and(|id| by_id.contains_key(&(node.trace, id))) {
                *node.op =
                    Operation { kind: Kind::Internal, dialect: node.op.dialect, ..Operation::default() };
            } else {
                let parent: Option<SpanId> = parent_of_span.parse().ok();
                node.parent_id = parent.filter(|id| id.is_valid());
            }
        }
    }

    fn link(&mut self, by_id: &HashMap<(TraceId, SpanId), usize>) {
        // The first that has a response is the one that its evaluation goes to, as in `identity`.
        let mut answered: HashMap<String, (usize, TraceId)> = HashMap::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let is_call = !node.is_log && node.op.kind == Kind::ModelCall;
            if let Some(id) = node.op.response_id.clone().filter(|_| is_call) {
                let _ = answered.entry(id).or_insert((number, node.trace));
            }
        }
        for node in self.nodes.iter_mut() {
            node.parent = node.parent_id.and_then(|id| by_id.get(&(node.trace, id)).copied());
            if node.is_log && node.parent.is_none() && node.op.kind == Kind::Evaluation {
                let judged = node.op.response_id.as_ref().and_then(|id| answered.get(id));
                let here = judged.filter(|(_, trace)| !node.trace.is_valid() || *trace == node.trace);
                node.parent = here.map(|(judged, _)| *judged);
            }
        }
    }

    /// Cuts every cycle of parent links above its node of least (start, span id).
    fn cut_cycles(&mut self) {
        const NEW: u8 = 0;
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        let mut seen = Table::filled(NEW, self.nodes.len());
        for first in 0..self.nodes.len() {
            let mut trail = Vec::new();
            let mut at = Some(first);
            while let Some(node) = at.filter(|node| seen[*node] == NEW) {
                seen[node] = OPEN;
                trail.push(node);
                at = self.nodes[node].parent;
            }
            if let Some(entry) = at.filter(|node| seen[*node] == OPEN) {
                let cycle = trail.iter().rev().scan(false, |ended, node| {
                    let inside = !*ended;
                    *ended |= *node == entry;
                    inside.then_some(*node)
                });
                let least = cycle.min_by_key(|n| (self.nodes[*n].start_ns, self.nodes[*n].span));
                if let Some(least) = least {
                    self.nodes[least].parent = None;
                    self.nodes[least].cycle = true;
                }
            }
            for node in trail {
                seen[node] = DONE;
            }
        }
    }

    fn settle_positions(&mut self) {
        let mut roots = Vec::new();
        for node in 0..self.nodes.len() {
            match self.nodes[node].parent {
                Some(parent) => self.nodes[parent].children.push(node),
                None => roots.push(node),
            }
        }
        // Parents first, so that a node without a start can take that of its parent.
        let mut stack = roots.clone();
        while let Some(node) = stack.pop() {
            let inherited = self.nodes[node].parent.map_or(0, |up| self.nodes[up].order_ns);
            let known = [self.nodes[node].start_ns, inherited, self.nodes[node].end_ns];
            self.nodes[node].order_ns = known.into_iter().find(|ns| *ns != 0).unwrap_or(0);
            stack.extend(self.nodes[node].children.iter());
        }
        self.sort(&mut roots);
        let mut stack: Vec<_> = roots.into_iter().rev().collect();
        while let Some(node) = stack.pop() {
            let mut children = std::mem::take(&mut self.nodes[node].children);
            self.sort(&mut children);
            stack.extend(children.iter().rev());
            self.nodes[node].children = children;
            if let Some(up) = self.nodes[node].parent {
                self.nodes[node].depth = self.nodes[up].depth.saturating_add(1);
                self.nodes[node].agents_above = self.path_below(up);
            }
            self.nodes[node].position = self.walk.len();
            self.walk.push(node);
        }
    }

    fn sort(&self, nodes: &mut [usize]) {
        nodes.sort_by_key(|n| {
            let node = &self.nodes[*n];
            // Clocks of whole milliseconds give a tool and the call after it one start: the shorter was first.
            (node.order_ns, node.end_ns, node.trace, node.span, node.record.hash)
        });
    }

    /// The agent path of what stands directly below `node`.
    fn path_below(&self, node: usize) -> Arc<[String]> {
        let node = &self.nodes[node];
        let above = &node.agents_above;
        if node.op.kind != Kind::Agent || above.len() >= AGENT_PATH_MAX {
            return Arc::clone(above);
        }
        let name = node.agent();
        // Two instrumentations of one agent nest two spans of one name.
        if name.is_empty() || above.last().is_some_and(|last| last == name) {
            return Arc::clone(above);
        }
        above.iter().cloned().chain([name.to_owned()]).collect()
    }
}

fn span_node(versions: &Versions, logs: &[&Record], meaning: &Meaning) -> Node {
    let record = &versions.elected;
    let op = meaning.of_span(record, logs);
    let (start, end, parent) = record.as_span().map_or((0, 0, SpanId::default()), |span| {
        (span.start_time_unix_nano, span.end_time_unix_nano, SpanId::from_slice(&span.parent_span_id))
    });
    let conflict = end != 0
        && versions.others.iter().any(|other| {
            other.as_span().is_some_and(|span| span.end_time_unix_nano != 0)
                && differ(&op, &meaning.of_span(other, logs))
        });
    let receipts = versions.receipts().chain(logs.iter().map(|log| Receipt::of(log))).collect();
    Node {
        op: Box::new(op),
        parent_id: parent.is_valid().then_some(parent),
        start_ns: known(start),
        end_ns: known(end),
        conflict,
        other_versions: versions.others.iter().map(|other| other.hash).collect(),
        receipts,
        ..bare(record, record.span_id())
    }
}

/// The events of a span that tell of an operation of their own, as log records.
fn checks_of(span: &Arc<Record>) -> impl Iterator<Item = Arc<Record>> {
    let events =
        span.as_span().into_iter().flat_map(|body| body.events.iter().map(move |event| (body, event)));
    events.filter(|(_, event)| CHECKS.contains(&event.name.as_str())).map(|(body, event)| {
        let log = LogRecord {
            time_unix_nano: event.time_unix_nano,
            event_name: event.name.clone(),
            attributes: event.attributes.clone(),
            trace_id: body.trace_id.clone(),
            span_id: body.span_id.clone(),
            ..LogRecord::default()
        };
        Arc::new(Record::new(Body::Log(log), Arc::clone(&span.origin), span.received_at, span.seq))
    })
}

/// `counted` is false when the receipt of the log is already with the span that it points to.
fn log_node(log: &Arc<Record>, op: Operation, counted: bool) -> Node {
    let at = log
        .as_log()
        .map_or(0, |l| if l.time_unix_nano == 0 { l.observed_time_unix_nano } else { l.time_unix_nano });
    let [a, b, c, d, e, f, g, h, ..] = log.hash.0;
    let parent = log.span_id();
    let start = known(at).saturating_sub(op.duration_ns.unwrap_or(0));
    Node {
        op: Box::new(op),
        parent_id: parent.is_valid().then_some(parent),
        start_ns: start,
        end_ns: known(at),
        is_log: true,
        receipts: counted.then(|| Receipt::of(log)).into_iter().collect(),
        ..bare(log, SpanId([a, b, c, d, e, f, g, h]))
    }
}

fn bare(record: &Arc<Record>, span: SpanId) -> Node {
    Node {
        record: Arc::clone(record),
        op: Box::default(),
        trace: record.trace_id(),
        span,
        parent_id: None,
        parent: None,
        children: Vec::new(),
        depth: 0,
        position: 0,
        start_ns: 0,
        end_ns: 0,
        order_ns: 0,
        agents_above: Arc::new([]),
        is_log: false,
        of_span: false,
        cycle: false,
        conflict: false,
        other_versions: Vec::new(),
        receipts: Vec::new(),
    }
}

fn text(value: &AnyValue) -> Option<&str> {
    match &value.value {
        Some(any_value::Value::StringValue(text)) => Some(text),
        _ => None,
    }
}

/// The tables hold i64: what is beyond is as good as unknown.
fn known(ns: u64) -> u64 {
    if i64::try_from(ns).is_ok() { ns } else { 0 }
}

fn differ(a: &Operation, b: &Operation) -> bool {
    a.kind != b.kind
        || a.input != b.input
        || a.output != b.output
        || a.tool.arguments != b.tool.arguments
        || a.tool.result != b.tool.result
}
