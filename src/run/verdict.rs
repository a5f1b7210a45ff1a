//! The verdict on a run: reasons why its record is not complete, and notes (design section 4, "Verdict").

use std::collections::{BTreeMap, BTreeSet};

use super::{
    calls::lost_calls,
    forest::{Forest, Node},
    model::{Note, Reason, ReasonClass, ReasonCode, Replayability, RunCheckpoint, Step, StepKind},
    order::Edge,
    steps::Draft,
};
use crate::{
    genai::{
        message::ContentState,
        operation::{Failure, Kind, OpStatus},
    },
    otlp::{
        record::{SpanId, TraceId},
        splice::holds_deep,
    },
};

/// `Span.flags`: the sender says whether the parent is remote.
const HAS_IS_REMOTE: u32 = 0x100;
/// `Span.flags`: the parent is remote.
const IS_REMOTE: u32 = 0x200;

/// Reasons and notes of a run, each once, in a fixed order.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    reasons: BTreeSet<Reason>,
    notes: BTreeSet<Note>,
}

/// Where something was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    step: Option<u32>,
    span: Option<SpanId>,
    trace: Option<TraceId>,
}

impl Place {
    fn node(node: &Node, step: Option<u32>) -> Self {
        Self { step, span: Some(node.span), trace: Some(node.trace).filter(|trace| trace.is_valid()) }
    }

    fn draft(draft: &Draft) -> Self {
        Self { step: Some(draft.step.index), span: draft.step.span_id, trace: draft.step.trace_id }
    }

    fn trace(trace: TraceId) -> Self {
        Self { trace: Some(trace), ..Self::default() }
    }
}

impl Verdict {
    /// What the steps themselves tell. `drafts` are in their final order.
    pub(super) fn of_steps(&mut self, forest: &Forest, drafts: &[Draft], paused: bool, settled: bool) {
        for draft in drafts {
            self.states(draft, settled);
            self.tool_calls(draft, paused, settled);
            for side in &draft.calls.filled {
                let side = if draft.step.inferred { "the step" } else { side };
                self.note("value_inferred", format!("taken from a model call: {side}"), Place::draft(draft));
            }
            if draft.calls.unordered.is_some() {
                let detail = "messages of one time: their order was not recorded".to_owned();
                self.note("order_conflict", detail, Place::draft(draft));
            }
            if let Some(node) = draft.node.map(|node| &forest.nodes[node]) {
                self.dropped(node, draft.step.index);
            }
        }
    }

    /// What the nodes tell, steps and frames alike.
    pub(super) fn of_nodes(
        &mut self,
        forest: &Forest,
        nodes: &[usize],
        steps: &BTreeMap<usize, u32>,
        settled: bool,
    ) {
        for number in nodes {
            let node = &forest.nodes[*number];
            let place = Place::node(node, steps.get(number).copied());
            self.times(forest, node, place, settled);
            self.deep_values(node, place);
            if node.cycle {
                self.reason(
                    ReasonCode::Cycle,
                    "parent links form a cycle, which was cut above this span",
                    place,
                );
            }
            if !node.other_versions.is_empty() {
                self.note(
                    "duplicate_elected",
                    format!("{} other versions were received", node.other_versions.len()),
                    place,
                );
            }
            if node.conflict {
                self.reason(
                    ReasonCode::DuplicateConflict,
                    "two ended versions differ in kind, input or output",
                    place,
                );
            }
            for issue in &node.op.issues {
                match reason_code(issue.code) {
                    Some(ReasonCode::Unfinished) if !settled => {}
                    // The content of a frame or of a superseded report is not needed to answer the run.
                    Some(code) if code.class() == ReasonClass::Structure || place.step.is_some() => {
                        self.reason(code, issue.detail.clone(), place);
                    }
                    _ => self.note(issue.code, issue.detail.clone(), place),
                }
            }
        }
        self.lost_parents(forest, nodes, settled);
    }

    /// Checkpoints that are referred to and were never recorded.
    pub(super) fn of_checkpoints(&mut self, checkpoints: &[RunCheckpoint], settled: bool) {
        for checkpoint in checkpoints.iter().filter(|c| settled && !c.reference.recorded) {
            let id = &checkpoint.reference.checkpoint_id;
            let by =
                checkpoint.step_index.map_or_else(|| "the run".to_owned(), |step| format!("step {step}"));
            let place = Place { step: checkpoint.step_index, ..Place::default() };
            self.reason(
                ReasonCode::MissingCheckpoint,
                format!("{id} is referred to by {by} and was never recorded"),
                place,
            );
        }
    }

    /// Edges that the order could not keep.
    pub(super) fn of_order(
        &mut self,
        drafts: &[Draft],
        left_out: &[Edge],
        index_of: impl Fn(usize) -> Option<u32>,
    ) {
        for edge in left_out {
            if let (Some(before), Some(after)) = (index_of(edge.before), index_of(edge.after)) {
                let place = drafts.get(after as usize).map(Place::draft).unwrap_or_default();
                self.note("order_conflict", format!("step {before} should come before step {after}"), place);
            }
        }
    }

    /// A note that concerns the run as a whole, or one trace of it.
    pub(super) fn of_run(&mut self, code: &str, detail: String, trace: Option<TraceId>) {
        self.note(code, detail, trace.map(Place::trace).unwrap_or_default());
    }

    /// The verdict in its final order, with how far the run can be answered.
    pub(super) fn close(self, drafts: &[Draft]) -> (Replayability, Vec<Reason>, Vec<Note>) {
        let answered = |draft: &Draft| {
            tells_error(&draft.step)
                || matches!(
                    draft.step.output_state,
                    ContentState::Captured | ContentState::Truncated | ContentState::Inferred
                )
        };
        let replayability = if !drafts.iter().any(answered) {
            Replayability::None
        } else if self.reasons.is_empty() {
            Replayability::Complete
        } else {
            Replayability::Partial
        };
        let mut reasons: Vec<_> = self.reasons.into_iter().collect();
        reasons.sort_by_key(|reason| reason.step_index.unwrap_or(u32::MAX));
        let mut notes: Vec<_> = self.notes.into_iter().collect();
        notes.sort_by_key(|note| note.step_index.unwrap_or(u32::MAX));
        (replayability, reasons, notes)
    }

    /// The reasons so far.
    pub(super) fn reasons(&self) -> Vec<Reason> {
        self.reasons.iter().cloned().collect()
    }

    fn states(&mut self, draft: &Draft, settled: bool) {
        let step = &draft.step;
        let place = Place::draft(draft);
        for (side, state) in [("input", step.input_state), ("output", step.output_state)] {
            let code = match state {
                ContentState::Truncated => ReasonCode::TruncatedContent,
                ContentState::Redacted => ReasonCode::RedactedContent,
                ContentState::External => ReasonCode::ExternalContent,
                ContentState::Unserializable => ReasonCode::UnparsableContent,
                ContentState::NotCaptured if settled => match missing(step, side) {
                    Some(code) => code,
                    None => continue,
                },
                ContentState::NotCaptured | ContentState::Captured | ContentState::Inferred => continue,
            };
            self.reason(code, format!("{side} of {}", step.name), place);
        }
    }

    fn tool_calls(&mut self, draft: &Draft, paused: bool, settled: bool) {
        if !settled {
            return;
        }
        let place = Place::draft(draft);
        for tool in &draft.calls.unanswered {
            let detail = format!("{tool} was asked for and no result is recorded");
            if paused {
                self.note("awaiting_input", detail, place);
            } else {
                self.reason(ReasonCode::MissingToolResult, detail, place);
            }
        }
        if draft.calls.unasked {
            let detail = format!("nothing in the run asked for {}", draft.step.name);
            self.reason(ReasonCode::MissingToolCall, detail, place);
        }
        if lost_calls(&draft.step) && draft.step.output_state == ContentState::Captured {
            let detail = format!("{} stopped for tool calls, and none is recorded", draft.step.name);
            self.reason(ReasonCode::MissingOutput, detail, place);
        }
        if draft.step.status == OpStatus::Interrupted {
            self.note("awaiting_input", format!("{} was interrupted", draft.step.name), place);
        }
    }

    fn dropped(&mut self, node: &Node, step: u32) {
        let Some(span) = node.record.as_span() else { return };
        let counts = [
            (ReasonCode::DroppedAttributes, span.dropped_attributes_count, "attributes"),
            (ReasonCode::DroppedEvents, span.dropped_events_count, "events"),
            (ReasonCode::DroppedLinks, span.dropped_links_count, "links"),
        ];
        for (code, count, what) in counts.into_iter().filter(|(_, count, _)| *count > 0) {
            self.reason(
                code,
                format!("{count} {what} were dropped by the sender"),
                Place::node(node, Some(step)),
            );
        }
    }

    fn deep_values(&mut self, node: &Node, place: Place) {
        let Some(span) = node.record.as_span() else { return };
        let all = span.attributes.iter().chain(span.events.iter().flat_map(|event| &event.attributes));
        for pair in all.filter(|pair| pair.value.as_ref().is_some_and(holds_deep)) {
            let detail = format!("{} is nested too deep and was kept as bytes", pair.key);
            self.note("deep_value", detail, place);
        }
    }

    fn times(&mut self, forest: &Forest, node: &Node, place: Place, settled: bool) {
        let Some(span) = node.record.as_span() else { return };
        let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
        let beyond = |ns: u64| i64::try_from(ns).is_err();
        if start != 0 && end == 0 && settled {
            self.reason(ReasonCode::Unfinished, "the span was started and never ended", place);
        }
        if start == 0 || beyond(start) || beyond(end) || (end == 0 && settled) {
            self.reason(ReasonCode::InvalidTime, format!("start {start}, end {end}"), place);
        } else if end != 0 && end < start {
            self.note("clock_skew", "the span ends before it starts".to_owned(), place);
        }
        let parent = node.parent.map(|up| &forest.nodes[up]);
        if parent.is_some_and(|up| node.start_ns != 0 && node.start_ns < up.start_ns) {
            self.note(
                "clock_skew",
                "the span starts before its parent; it is ordered after it".to_owned(),
                place,
            );
        }
    }

    /// Parents that never came: a reason where they were lost, a note where they are outside of what is sent here.
    fn lost_parents(&mut self, forest: &Forest, nodes: &[usize], settled: bool) {
        let mut under: BTreeMap<(TraceId, SpanId), Vec<&Node>> = BTreeMap::new();
        let mut rooted: BTreeSet<TraceId> = BTreeSet::new();
        for node in nodes.iter().map(|number| &forest.nodes[*number]) {
            match node.parent_id {
                Some(parent) if node.lost_parent() => {
                    under.entry((node.trace, parent)).or_default().push(node)
                }
                None if !node.is_log => {
                    let _ = rooted.insert(node.trace);
                }
                _ => {}
            }
        }
        for ((trace, parent), orphans) in under {
            let outside = match origin_of_parent(&orphans) {
                Parent::Outside => true,
                Parent::Lost => false,
                Parent::Unknown => {
                    matches!(orphans.as_slice(), [one] if matches!(one.op.kind, Kind::Agent | Kind::Workflow))
                }
            };
            let place = Place { span: orphans.first().map(|node| node.span), ..Place::trace(trace) };
            if outside {
                self.note("parent_outside", format!("the parent {parent} is not among the records"), place);
            } else if settled && rooted.contains(&trace) {
                self.reason(ReasonCode::MissingParent, format!("the parent {parent} never came"), place);
            } else if settled {
                self.reason(ReasonCode::MissingRoot, "no span of the trace is a root", Place::trace(trace));
            }
        }
    }

    fn reason(&mut self, code: ReasonCode, detail: impl Into<String>, place: Place) {
        let _ = self.reasons.insert(Reason {
            code,
            class: code.class(),
            detail: detail.into(),
            step_index: place.step,
            span_id: place.span.map(|id| id.to_string()),
            trace_id: place.trace.map(|id| id.to_string()),
        });
    }

    fn note(&mut self, code: &str, detail: String, place: Place) {
        let _ = self.notes.insert(Note {
            code: code.to_owned(),
            detail,
            step_index: place.step,
            span_id: place.span.map(|id| id.to_string()),
            trace_id: place.trace.map(|id| id.to_string()),
        });
    }
}

/// What the flags of the spans under a parent say of it.
enum Parent {
    Outside,
    Lost,
    Unknown,
}

fn origin_of_parent(orphans: &[&Node]) -> Parent {
    let says = |mask: u32, value: u32| orphans.iter().any(|node| node.flags() & mask == value);
    if says(HAS_IS_REMOTE | IS_REMOTE, HAS_IS_REMOTE) {
        Parent::Lost
    } else if says(HAS_IS_REMOTE | IS_REMOTE, HAS_IS_REMOTE | IS_REMOTE) {
        Parent::Outside
    } else {
        Parent::Unknown
    }
}

/// True for an error that says what it was: one that can be given again.
fn tells_error(step: &Step) -> bool {
    let told = |failure: &Failure| failure.message.is_some() || failure.status_code.is_some();
    step.status == OpStatus::Error && step.error.as_ref().is_some_and(told)
}

/// The reason for a side that was not captured. A told error, a pause and a cancellation are answers.
fn missing(step: &Step, side: &str) -> Option<ReasonCode> {
    match (step.kind, side) {
        (StepKind::ModelCall | StepKind::Embedding | StepKind::ToolCall, "input") => {
            Some(ReasonCode::MissingInput)
        }
        _ if matches!(step.status, OpStatus::Interrupted | OpStatus::Cancelled) || tells_error(step) => None,
        (StepKind::ModelCall | StepKind::Embedding, _) => Some(ReasonCode::MissingOutput),
        (StepKind::ToolCall, _) => Some(ReasonCode::MissingToolResult),
        _ => None,
    }
}

/// The reason of that name, if `code` is one and not a note.
fn reason_code(code: &str) -> Option<ReasonCode> {
    serde_json::from_value(code.into()).ok()
}
