//! What requests to all model providers have in common, read without regard to who sent it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    genai::{
        message::{Message, Part},
        parse,
    },
    replay::sim::{
        call::{Sampling, ToolDefinition},
        tools,
    },
};

/// The members of a request.
pub(super) fn members(body: &Value) -> Result<&Map<String, Value>, String> {
    body.as_object().ok_or_else(|| "the body must be a JSON object".to_owned())
}

/// The model that is asked; Azure's clients name it in the path.
pub(super) fn model(body: &Map<String, Value>, path_model: Option<&str>) -> Result<String, String> {
    let model = text(body, "model").or(path_model).filter(|model| !model.is_empty());
    model.map(str::to_owned).ok_or_else(|| "`model` is missing: name the model that is asked".to_owned())
}

/// The member `key`, when it is text.
pub(super) fn text<'a>(body: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    body.get(key).and_then(Value::as_str)
}

/// True when the member `key` is `true`.
pub(super) fn is_set(body: &Map<String, Value>, key: &str) -> bool {
    body.get(key).and_then(Value::as_bool) == Some(true)
}

/// The messages in `list`, by the reader that telemetry is read with: a recorded message and a live one are the same.
/// What that reader finds fault with is content, and content is for matching to judge.
pub(super) fn messages(list: &Value) -> Vec<Message> {
    let read = parse::messages(list, "user", &mut Vec::new());
    read.value.into_iter().map(Arc::unwrap_or_clone).collect()
}

/// The parts of a text, or of a list of blocks.
pub(super) fn parts(content: Option<&Value>) -> Vec<Part> {
    let Some(content) = content else { return Vec::new() };
    messages(&json!([{"role": "system", "content": content}])).into_iter().flat_map(|m| m.parts).collect()
}

/// The tools in the lists under `keys`, by the reader that recorded ones are read with.
pub(super) fn tools(body: &Map<String, Value>, keys: &[&str]) -> Vec<ToolDefinition> {
    keys.iter().filter_map(|key| body.get(*key)).flat_map(tools::read).collect()
}

/// The settings of a request; `limits` are the names for the greatest number of tokens, the valid one first.
pub(super) fn sampling(body: &Map<String, Value>, limits: &[&str]) -> Sampling {
    let number = |key: &str| body.get(key).and_then(Value::as_f64);
    Sampling {
        temperature: number("temperature"),
        top_p: number("top_p"),
        max_tokens: limits.iter().find_map(|key| body.get(*key)?.as_u64()),
        seed: body.get("seed").and_then(Value::as_i64),
    }
}

/// The schema that a `response_format` asks for, or its type where it has none; `None` for plain text.
pub(super) fn format(format: Option<&Value>) -> Option<Value> {
    let format = format?;
    let schema = format.get("json_schema").unwrap_or(format).get("schema").filter(|s| !s.is_null());
    match (schema, format.get("type").and_then(Value::as_str)) {
        (Some(schema), _) => Some(schema.clone()),
        (None, Some("text") | None) => None,
        (None, Some(kind)) => Some(Value::from(kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools_of(list: Value) -> Vec<(String, String, Value)> {
        let body = json!({ "tools": list });
        let tools = tools(body.as_object().unwrap(), &["tools"]);
        tools.into_iter().map(|t| (t.name, t.description, t.parameters)).collect()
    }

    /// Scenario: one tool as each API writes it.
    /// Guarantee: it is the same tool.
    #[test]
    fn a_tool_differs_by_the_api_that_it_is_offered_through() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let flat = json!({"name": "weather", "description": "of a city", "parameters": schema});
        let mut typed = flat.clone();
        typed["type"] = json!("function");
        let found = tools_of(json!([
            {"type": "function", "function": flat},
            typed,
            {"name": "weather", "description": "of a city", "input_schema": schema},
        ]));
        assert_eq!(found, vec![("weather".to_owned(), "of a city".to_owned(), schema); 3]);
    }

    #[test]
    fn a_built_in_tool_is_lost() {
        let found = tools_of(json!([
            {"type": "web_search"},
            {"type": "web_search_20260209", "name": "web_search", "max_uses": 3},
            {"type": "custom", "custom": {"name": "apply_patch"}},
            {"type": "custom", "name": "apply_patch", "format": {"type": "text"}},
            7,
            {},
        ]));
        let names: Vec<_> = found.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["web_search", "web_search", "apply_patch", "apply_patch"]);
        assert!(found.iter().all(|(.., parameters)| parameters.is_null()));
    }

    #[test]
    fn a_wanted_schema_differs_by_the_api_that_it_is_asked_through() {
        let schema = json!({"type": "object"});
        let chat = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
        let flat = json!({"type": "json_schema", "name": "a", "schema": schema});
        assert_eq!(format(Some(&chat)), Some(schema.clone()));
        assert_eq!(format(Some(&flat)), Some(schema));
        assert_eq!(format(Some(&json!({"type": "json_object"}))), Some(json!("json_object")));
        assert_eq!(format(Some(&json!({"type": "text"}))), None);
        assert_eq!(format(None), None);
    }
}
