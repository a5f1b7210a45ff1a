//! Producers whose own attributes differ from the convention in names alone: one row each (`dialects.md` 9).

mod table;

use serde_json::{Value, json};

use super::{Dialect, Facts, fill, fill_arguments, fill_messages, fill_request, fill_result, query};
use crate::genai::{
    message::Part,
    operation::{Kind, Operation},
    parse, state, usage,
};
use table::VENDORS;

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "vendor", detect, kind, read };

/// A producer: which attributes say what.
#[derive(Debug)]
struct Vendor {
    /// A span is its own when an attribute starts so.
    prefix: &'static str,
    /// A span is its own when its scope is named so; never matches when empty.
    scope: &'static str,
    /// Attributes that say the kind, in its words.
    kind: &'static [&'static str],
    words: &'static [(&'static str, Kind)],
    /// As `words`, for the ends of words.
    suffixes: &'static [(&'static str, Kind)],
    /// Kinds by the prefix of an attribute that is there, where no word says one.
    present: &'static [(&'static str, Kind)],
    /// Words of model calls that a newer version splits into calls of their own.
    wrappers: &'static [&'static str],
    input: &'static [&'static str],
    output: &'static [&'static str],
    /// Calls that the model asked for, beside its text.
    calls: &'static [&'static str],
    name: &'static [&'static str],
    call_id: &'static [&'static str],
    agent: &'static [&'static str],
    model: &'static [&'static str],
    query: &'static [&'static str],
    documents: &'static [&'static str],
    decision: &'static [&'static str],
}

const NONE: Vendor = Vendor {
    prefix: "",
    scope: "",
    kind: &[],
    words: &[],
    suffixes: &[],
    present: &[],
    wrappers: &[],
    input: &[],
    output: &[],
    calls: &[],
    name: &[],
    call_id: &[],
    agent: &[],
    model: &[],
    query: &[],
    documents: &[],
    decision: &[],
};
/// The end of the class of Haystack's component that runs tools.
const INVOKER: &str = "ToolInvoker";
/// LiveKit tells the kind by the span's name alone.
const LIVEKIT: &[(&str, Kind)] = &[
    ("llm_request", Kind::ModelCall),
    ("llm_node", Kind::ModelCall),
    ("function_tool", Kind::ToolCall),
    ("agent_turn", Kind::Agent),
];

fn of<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = &'static Vendor> + use<'a> {
    VENDORS.iter().filter(|vendor| {
        facts.attrs.any_with_prefix(vendor.prefix) || !vendor.scope.is_empty() && facts.scope == vendor.scope
    })
}

fn detect(facts: &Facts<'_>) -> bool {
    of(facts).next().is_some()
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    if facts.scope == "livekit-agents" {
        return LIVEKIT.iter().find(|(name, _)| *name == facts.span.name).map(|(_, kind)| *kind);
    }
    of(facts).find_map(|vendor| {
        let word = facts.attrs.text(vendor.kind).unwrap_or_default();
        let by_word = vendor.words.iter().find(|(w, _)| *w == word);
        let by_suffix = || vendor.suffixes.iter().find(|(end, _)| word.ends_with(end));
        let by_presence = || vendor.present.iter().find(|(start, _)| facts.attrs.any_with_prefix(start));
        by_word.or_else(by_suffix).or_else(by_presence).map(|(_, kind)| *kind)
    })
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    for vendor in of(facts) {
        read_one(facts, vendor, operation);
    }
}

fn read_one(facts: &Facts<'_>, vendor: &Vendor, operation: &mut Operation) {
    let attrs = facts.attrs;
    let (input, output) = (attrs.first(vendor.input), attrs.first(vendor.output));
    fill(&mut operation.decision, || attrs.text(vendor.decision));
    match operation.kind {
        Kind::ToolCall if attrs.text(vendor.kind).is_some_and(|word| word.ends_with(INVOKER)) => {
            invoker(operation, input, output);
        }
        Kind::ToolCall => {
            fill(&mut operation.tool.name, || attrs.text(vendor.name));
            fill(&mut operation.tool.call_id, || parse::call_id(attrs.first(vendor.call_id)));
            fill_arguments(operation, attrs.arguments(vendor.input));
            fill_result(operation, output);
        }
        Kind::Retrieval | Kind::Rerank => {
            fill(&mut operation.tool.name, || attrs.text(vendor.name));
            fill(&mut operation.retrieval_query, || query(attrs.first(vendor.query)?));
            fill(&mut operation.retrieval_documents, || documents(attrs.first(vendor.documents)?));
            fill_messages(operation, input, output);
        }
        Kind::ModelCall | Kind::Embedding => model_call(facts, vendor, operation, input, output),
        Kind::Agent => {
            operation.declared = true;
            fill(&mut operation.agent_name, || attrs.text(vendor.agent));
            fill_messages(operation, input, output);
        }
        Kind::Workflow | Kind::Task => {
            operation.declared = true;
            fill(&mut operation.workflow_name, || attrs.text(vendor.name));
            fill_messages(operation, input, output);
        }
        _ => {
            fill(&mut operation.tool.name, || attrs.text(vendor.name));
            fill_messages(operation, input, output);
        }
    }
}

fn model_call(
    facts: &Facts<'_>,
    vendor: &Vendor,
    operation: &mut Operation,
    input: Option<&Value>,
    output: Option<&Value>,
) {
    let attrs = facts.attrs;
    let word = attrs.text(vendor.kind).unwrap_or_default();
    operation.is_wrapper = vendor.wrappers.contains(&word.as_str());
    fill(&mut operation.request_model, || attrs.text(vendor.model));
    if let Some(request) = input.map(|v| state::open(v).value) {
        fill_request(operation, &request);
        fill_request(operation, request.get("config").unwrap_or(&Value::Null));
    }
    let calls = attrs.first(vendor.calls).map(|c| state::open(c).value);
    if calls.is_some() {
        let text = output.map(|text| json!([{"type": "text", "text": text}]));
        let answer = json!([{"role": "assistant", "content": text, "tool_calls": calls}]);
        fill_messages(operation, input, Some(&answer));
    } else {
        fill_messages(operation, input, output);
    }
    if let Some(response) = output {
        usage::fill(&mut operation.usage, usage::of_response(response));
        let response = state::open(response).value;
        fill(&mut operation.response_model, || {
            response.pointer("/replies/0/meta/model")?.as_str().map(str::to_owned)
        });
    }
}

/// A component that runs all tools of one message: it is the call where that asks for one. The calls of several are
/// told by the model calls around it.
fn invoker(operation: &mut Operation, input: Option<&Value>, output: Option<&Value>) {
    let mut side = |value: Option<&Value>| {
        value.map(|v| parse::messages(v, "assistant", &mut operation.issues)).unwrap_or_default()
    };
    let (asked, answered) = (side(input), side(output));
    let last = asked.value.last().into_iter().flat_map(|message| &message.parts);
    let calls: Vec<_> = last.filter(|part| matches!(part, Part::ToolCall { .. })).collect();
    let [Part::ToolCall { id, name, arguments, .. }] = calls.as_slice() else {
        operation.kind = Kind::Internal;
        return;
    };
    operation.tool.name = Some(name.clone());
    operation.tool.call_id.clone_from(id);
    fill_arguments(operation, arguments.as_ref());
    let answer = answered.value.iter().flat_map(|message| &message.parts).find_map(|part| match part {
        Part::ToolCallResponse { response, .. } => response.clone(),
        _ => None,
    });
    fill_result(operation, answer.as_ref());
}

/// A list of documents, or the list in an object that says so.
fn documents(found: &Value) -> Option<Value> {
    let opened = state::open(found).value;
    match opened.get("documents") {
        Some(inner) => Some(inner.clone()),
        None => opened.is_array().then_some(opened),
    }
}
