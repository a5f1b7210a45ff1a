//! What producers put around messages: requests and responses of the providers' APIs, results of frameworks,
//! messages as LangChain serializes them.

use serde_json::{Map, Value};

/// Members that hold the messages of an object which is nothing but their wrapping, strongest first.
const WRAPPERS: &[&str] = &[
    "messages",
    "contents",
    "items",
    "replies",
    "input",
    "inputs",
    "output",
    "outputs",
    "message",
    "response",
    "generations",
    "completion",
    "combined_chunk_content",
];
/// Members of a wrapper that are no reason to take the object for something else.
const BESIDE: &[&str] = &[
    "kwargs",
    "args",
    "tags",
    "metadata",
    "model",
    "llm_output",
    "run",
    "type",
    "id",
    "stream",
    "stop",
    "tools",
    "config",
    "tool_choice",
    "temperature",
    "max_tokens",
    "seed",
    "object",
    "created",
    "rawRequest",
    "chunk_count",
];

/// The messages inside `object`, each with the role that it has where it names none; `None` when it wraps none.
pub(super) fn inner(object: &Map<String, Value>) -> Option<Vec<(&Value, Option<&'static str>)>> {
    let list = |key: &str| object.get(key).and_then(Value::as_array);
    if let Some(choices) = list("choices").filter(|c| c.iter().any(is_choice)) {
        return Some(choices.iter().map(|c| (c, Some("assistant"))).collect());
    }
    if let Some(candidates) = list("candidates") {
        // Gemini's, and those of Genkit.
        let of = |c: &'_ Value| ["content", "message"].into_iter().find(|key| c.get(*key).is_some());
        if candidates.iter().any(|c| of(c).is_some()) {
            return Some(
                candidates.iter().filter_map(|c| Some((c.get(of(c)?)?, Some("assistant")))).collect(),
            );
        }
    }
    if let Some(generations) = list("generations") {
        let flat =
            generations.iter().flat_map(|g| g.as_array().map_or(std::slice::from_ref(g), Vec::as_slice));
        return Some(
            flat.map(|g| (g.get("message").filter(|m| m.is_object()).unwrap_or(g), Some("assistant")))
                .collect(),
        );
    }
    let is_response = object.get("object").and_then(Value::as_str) == Some("response");
    if let Some(output) = object.get("output").filter(|o| is_response && o.is_array()) {
        return Some(vec![(output, Some("assistant"))]);
    }
    // A message is no wrapper, whatever else it holds.
    if object.contains_key("role") || object.contains_key("parts") || object.contains_key("content") {
        return None;
    }
    let wrapped =
        WRAPPERS.iter().find_map(|key| object.get_key_value(*key).filter(|(_, v)| holds_messages(v)))?;
    let asked = object.contains_key("model") || wrapped.0 == "messages" || wrapped.0 == "contents";
    let beside = |key: &str, value: &Value| key == wrapped.0 || value.is_null() || BESIDE.contains(&key);
    let others = object.iter().filter(|(key, value)| !beside(key, value));
    if !asked && others.count() > 0 {
        return None;
    }
    let system = ["instructions", "system", "system_instruction", "systemInstruction"];
    let system = system.iter().find_map(|key| object.get(*key)).filter(|s| !s.is_null());
    Some(system.map(|s| (s, Some("system"))).into_iter().chain([(wrapped.1, None)]).collect())
}

/// The role and the members of a message as LangChain writes it: `{"lc":1,"id":[..,"HumanMessage"],"kwargs":{..}}`,
/// `{"type":"human","data":{..}}` or `{"type":"human","content":..}`.
pub(super) fn langchain(object: &Map<String, Value>) -> Option<(&'static str, &Map<String, Value>)> {
    if object.contains_key("lc") {
        let members = object.get("kwargs")?.as_object()?;
        let class = object.get("id")?.as_array()?.last()?.as_str()?;
        return Some((role_of(class)?, members));
    }
    if object.contains_key("role") {
        return None;
    }
    let role = role_of(object.get("type")?.as_str()?)?;
    let members =
        object.get("data").and_then(Value::as_object).or(object.contains_key("content").then_some(object))?;
    Some((role, members))
}

/// The answer that a tool's result holds where a framework wrapped it in a message of its own, else the result.
pub(in crate::genai) fn tool_answer(result: &Value) -> &Value {
    let Value::Object(object) = result else { return result };
    if let Some(inner) = object.get("output").filter(|o| object.len() == 1 && o.is_object()) {
        return tool_answer(inner);
    }
    match langchain(object) {
        Some(("tool", members)) => members.get("content").unwrap_or(result),
        _ if object.get("role").and_then(Value::as_str) == Some("tool") => {
            object.get("content").unwrap_or(result)
        }
        _ => result,
    }
}

/// The arguments of a call without the shell of the decorator or tracer that recorded it.
pub(in crate::genai) fn call_arguments(value: &Value) -> &Value {
    let Value::Object(object) = value else { return value };
    let args = object.get("args").and_then(Value::as_array);
    let kwargs = object.get("kwargs").filter(|k| k.is_object());
    // Flags of the tracer are scalars beside them.
    let shell =
        object.iter().all(|(key, v)| key == "args" || key == "kwargs" || v.is_boolean() || v.is_null());
    if !shell {
        return value;
    }
    let empty = |value: Option<&Value>| value.and_then(Value::as_object).is_none_or(Map::is_empty);
    match (args.map(Vec::as_slice), kwargs) {
        (None | Some([]), Some(kwargs)) => kwargs,
        (Some([one]), _) if empty(kwargs) && (one.is_object() || is_object_text(one)) => one,
        _ => value,
    }
}

fn is_object_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim_start().starts_with('{'))
}

fn is_choice(choice: &Value) -> bool {
    ["message", "text", "delta"].iter().any(|key| choice.get(*key).is_some())
}

fn holds_messages(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|i| i.is_object() || i.is_array() || i.is_string()),
        Value::Object(members) => {
            inner(members).is_some() || langchain(members).is_some() || members.contains_key("role")
        }
        Value::String(text) => !text.is_empty(),
        _ => false,
    }
}

fn role_of(class: &str) -> Option<&'static str> {
    let name = class.strip_suffix("MessageChunk").or_else(|| class.strip_suffix("Message")).unwrap_or(class);
    Some(match name {
        "Human" | "human" => "user",
        "AI" | "ai" => "assistant",
        "Tool" | "tool" | "Function" => "tool",
        "System" | "system" => "system",
        _ => return None,
    })
}
