//! Recorded steps -> answers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    call::{Answer, EmbeddingAnswer, EmbeddingCall, Failed, ModelAnswer, Tokens, ToolAnswer},
    policy::Patch,
};
use crate::{
    genai::{
        finish,
        message::{Message, Part},
        operation::OpStatus,
    },
    run::model::Step,
};

/// Length of a vector when neither call nor record tells it.
const DIMENSIONS_DEFAULT: usize = 1536;
/// The longest vector that is made.
const DIMENSIONS_MAX: usize = 16_384;
/// The most numbers that one answer holds.
const NUMBERS_MAX: usize = 2 << 20;
/// Status of a recorded failure whose status is not in the record.
const STATUS_DEFAULT: u16 = 500;

/// What the model of `step` said, or how it failed; `None` when the record does not tell. `id` is unique in the session.
pub(super) fn of_model(step: &Step, id: &str, patch: Option<&Patch>) -> Option<Answer> {
    let patched = patch.and_then(|patch| patch.output.as_ref()).map(messages_of);
    let recorded: Vec<&Message> = step.output_messages.iter().map(|m| &**m).collect();
    let messages: Vec<&Message> = patched.as_ref().map_or(recorded, |patched| patched.iter().collect());
    if messages.is_empty() {
        return (step.status == OpStatus::Error).then(|| Answer::Failed(failed(step)));
    }
    // Several texts that each ended are alternatives; else they are one answer in pieces: parallel calls stand in
    // messages of their own with some producers.
    let calls = |m: &&Message| m.parts.iter().any(|part| matches!(part, Part::ToolCall { .. }));
    let ended = messages.iter().all(|m| m.finish_reason.is_some());
    let alternatives = messages.len() > 1 && ended && !messages.iter().any(calls);
    let taken = if alternatives { 1 } else { messages.len() };
    let mut parts: Vec<Part> = messages.iter().take(taken).flat_map(|m| m.parts.iter().cloned()).collect();
    identify_calls(&mut parts, id);
    let said = messages.first().and_then(|m| m.finish_reason.clone()).filter(|_| patched.is_some());
    let asks = parts.iter().any(|part| matches!(part, Part::ToolCall { .. }));
    let finish = match said.or_else(|| step.finish_reasons.first().cloned()) {
        // Gemini and some frameworks say `stop` for a call of a tool.
        Some(reason) if asks && finish::normalize(&reason) == "stop" => "tool_call".into(),
        Some(reason) if patched.is_none() || !asks => finish::normalize(&reason),
        _ if asks => "tool_call".into(),
        _ => "stop".into(),
    };
    Some(Answer::Model(ModelAnswer {
        step: step.index,
        id: id.to_owned(),
        model: step.response_model.clone().or_else(|| step.model.clone()).unwrap_or_default(),
        parts,
        finish,
        usage: tokens(step),
        created_s: step.start_ns / 1_000_000_000,
    }))
}

/// What a tool gave.
pub(super) fn of_tool(step: &Step, patch: Option<&Patch>) -> Option<Answer> {
    let patched = patch.and_then(|patch| patch.result.clone());
    let is_error = patched.is_none() && step.status == OpStatus::Error;
    let told = step.error.as_ref().and_then(|error| error.message.clone()).map(Value::String);
    let documents = step.retrieval_documents.clone();
    let result =
        patched.or_else(|| step.tool_result.clone()).or(documents).or_else(|| told.filter(|_| is_error));
    let result = result.or_else(|| is_error.then(|| "the tool failed".into()))?;
    Some(Answer::Tool(ToolAnswer { step: Some(step.index), result, is_error }))
}

/// A vector for each text: those that were recorded, which few producers do, or some made of the texts alone.
pub(super) fn of_embedding(step: &Step, call: &EmbeddingCall) -> Answer {
    if step.status == OpStatus::Error {
        return Answer::Failed(failed(step));
    }
    let recorded = vectors(step);
    let length = call.dimensions.or_else(|| recorded.first().map(Vec::len));
    let length = length.unwrap_or(DIMENSIONS_DEFAULT).clamp(1, DIMENSIONS_MAX);
    if call.inputs.len().saturating_mul(length) > NUMBERS_MAX {
        let message =
            format!("spanreel: more than {NUMBERS_MAX} numbers in one answer; embed fewer texts at once");
        return Answer::Failed(Failed { step: step.index, status: 400, kind: String::new(), message });
    }
    let made = || call.inputs.iter().map(|text| vector(text, length)).collect();
    Answer::Embedding(EmbeddingAnswer {
        step: step.index,
        model: step.response_model.clone().or_else(|| step.model.clone()).unwrap_or_default(),
        is_recorded: recorded.len() == call.inputs.len(),
        vectors: if recorded.len() == call.inputs.len() { recorded } else { made() },
        usage: tokens(step),
    })
}

fn failed(step: &Step) -> Failed {
    let error = step.error.clone().unwrap_or_default();
    let kind = error.kind.unwrap_or_default();
    let said = error.message.unwrap_or_else(|| format!("the recorded call failed: {kind}"));
    let (told, message) = without_client(&said);
    let status = error.status_code.or(told).or_else(|| status_of(&kind)).unwrap_or(STATUS_DEFAULT);
    Failed { step: step.index, status, message, kind }
}

/// The status and the provider's own message in what a client made of both: clients write them again.
fn without_client(said: &str) -> (Option<u16>, String) {
    // LangChain writes where to read more behind it, and JavaScript where it was thrown.
    let said = ["\n\nTroubleshooting URL:", "\n    at "]
        .iter()
        .fold(said, |said, mark| said.split_once(mark).map_or(said, |(head, _)| head));
    let status = |text: &str| text.parse().ok().filter(|status| (400..600).contains(status));
    if let Some((number, rest)) = said.strip_prefix("Error code: ").and_then(|rest| rest.split_once(" - "))
        && let Some(status) = status(number)
    {
        let body = crate::genai::state::open(&Value::from(rest)).value;
        let inner = ["/error/message", "/message"].iter().find_map(|at| body.pointer(at)?.as_str());
        return (Some(status), inner.unwrap_or(rest).to_owned());
    }
    match said.split_once(' ').and_then(|(number, rest)| Some((status(number)?, rest))) {
        Some((status, rest)) => (Some(status), rest.to_owned()),
        None => (None, said.to_owned()),
    }
}

/// The status behind the name that clients give an exception.
fn status_of(kind: &str) -> Option<u16> {
    Some(match kind.rsplit(['.', ':']).next().unwrap_or(kind) {
        "BadRequestError" => 400,
        "AuthenticationError" => 401,
        "PermissionDeniedError" => 403,
        "NotFoundError" => 404,
        "ConflictError" => 409,
        "UnprocessableEntityError" => 422,
        "RateLimitError" => 429,
        "InternalServerError" => 500,
        "ServiceUnavailableError" => 503,
        _ => return None,
    })
}

fn tokens(step: &Step) -> Tokens {
    let usage = &step.usage;
    Tokens {
        input: usage.input_tokens.unwrap_or_default(),
        output: usage.output_tokens.unwrap_or_default(),
        cache_read: usage.cache_read_tokens.unwrap_or_default(),
        cache_write: usage.cache_write_tokens.unwrap_or_default(),
        reasoning: usage.reasoning_tokens.unwrap_or_default(),
    }
}

/// Every call has an id, and none twice: clients tie results to them. A call that was written twice is one.
fn identify_calls(parts: &mut Vec<Part>, id: &str) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    parts.retain(|part| match part {
        Part::ToolCall { id: Some(id), .. } => seen.insert(id.clone()),
        _ => true,
    });
    let mut number = 0;
    for part in parts {
        if let Part::ToolCall { id: own @ None, .. } = part {
            *own = Some(format!("call_{id}{number}"));
            number += 1;
        }
    }
}

/// Messages of a patch: text, a message, or a list of them.
fn messages_of(value: &Value) -> Vec<Message> {
    let read = crate::genai::parse::messages(value, "assistant", &mut Vec::new());
    read.value.iter().map(|message| Message::clone(message)).collect()
}

/// The vectors of a step, as far as they are whole.
#[expect(clippy::cast_possible_truncation, reason = "vectors are of single precision")]
fn vectors(step: &Step) -> Vec<Vec<f32>> {
    let parts = step.output_messages.iter().flat_map(|message| &message.parts);
    let of = |part: &Part| match part {
        Part::Other(members) => {
            let numbers = members.get("vector")?.as_array()?;
            let numbers: Option<Vec<f32>> = numbers.iter().map(|n| n.as_f64().map(|n| n as f32)).collect();
            numbers.filter(|numbers| !numbers.is_empty())
        }
        _ => None,
    };
    parts.filter_map(of).collect()
}

#[expect(clippy::cast_precision_loss, reason = "four random bytes")]
fn vector(text: &str, length: usize) -> Vec<f32> {
    let mut bytes = vec![0; length * 4];
    blake3::Hasher::new().update(text.as_bytes()).finalize_xof().fill(&mut bytes);
    let mut vector: Vec<f32> = bytes
        .chunks_exact(4)
        .map(|four| {
            let number = four.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
            number as f32 / u32::MAX as f32 - 0.5
        })
        .collect();
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|x| *x /= norm.max(f32::MIN_POSITIVE));
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_error_is_wrapped_once_more() {
        for (said, status, message) in [
            ("404 model x is not available", Some(404), "model x is not available"),
            ("404 no\n\nTroubleshooting URL: https://x", Some(404), "no"),
            ("Error code: 429 - {'error': {'message': 'slow down', 'type': 'x'}}", Some(429), "slow down"),
            ("Error code: 500 - plain", Some(500), "plain"),
            ("boom\n    at f (a.js:1)", None, "boom"),
            ("1234 is not a city", None, "1234 is not a city"),
        ] {
            assert_eq!(without_client(said), (status, message.to_owned()), "{said}");
        }
        assert_eq!((status_of("openai.NotFoundError"), status_of("ValueError")), (Some(404), None));
    }
}
