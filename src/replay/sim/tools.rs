//! Tool definitions, in whatever shape a provider or producer writes them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    call::ToolDefinition,
    canon::{self, Print},
};

/// The most levels of wrapping around a definition.
const DEPTH_MAX: usize = 4;
/// Members of a schema that frameworks add and that say nothing of the arguments.
const DECORATION: &[&str] = &["title", "$schema", "additionalProperties", "strict", "$id"];

/// The definitions in `value`: a list or one of them, wrapped as providers do, or JSON text of such.
pub fn read(value: &Value) -> Vec<ToolDefinition> {
    let mut found = Vec::new();
    collect(value, DEPTH_MAX, &mut found);
    found
}

fn collect(value: &Value, depth: usize, found: &mut Vec<ToolDefinition>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, depth + 1, found)),
        Value::String(text) => {
            if let Ok(opened @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
                collect(&opened, depth, found);
            }
        }
        Value::Object(members) => {
            let wrapped =
                ["function", "custom", "toolSpec", "functionDeclarations", "function_declarations", "tools"];
            let inner = wrapped.iter().filter_map(|name| members.get(*name)).find(|v| !v.is_string());
            match (inner, text(members, "name"), text(members, "type")) {
                (Some(inner), ..) => collect(inner, depth, found),
                (None, Some(name), _) => found.push(definition(name, members)),
                // A tool of the provider's own goes by its type.
                (None, None, Some(kind)) => found.push(definition(kind, members)),
                (None, None, None) => {
                    // Gemini names its own tools by the member: `{"googleSearch": {}}`.
                    let single = (members.len() == 1).then(|| members.keys().next()).flatten();
                    // A mark for a cache stands among the tools of Bedrock.
                    let single = single.filter(|name| *name != "cachePoint");
                    found.extend(single.map(|name| definition(&snake(name), &Map::new())));
                }
            }
        }
        _ => {}
    }
}

/// `google_search` for `googleSearch`: clients write either.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 1);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn definition(name: &str, members: &Map<String, Value>) -> ToolDefinition {
    let schemas = [
        "parameters",
        "input_schema",
        "inputSchema",
        "parametersJsonSchema",
        "parameters_json_schema",
        "parametersSchema",
    ];
    let schema = schemas.iter().find_map(|name| members.get(*name)).unwrap_or(&Value::Null);
    let schema = canon::opened(schema.get("json").unwrap_or(schema));
    ToolDefinition {
        name: name.to_owned(),
        description: text(members, "description").unwrap_or_default().to_owned(),
        parameters: schema,
    }
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Names with a hash of what else is known of each.
pub(super) fn prints(tools: &[ToolDefinition]) -> BTreeMap<String, Print> {
    let of = |tool: &ToolDefinition| {
        let schema = canon::canonical(&undecorated(&tool.parameters));
        let text = format!("{}\n{schema}", tool.description.trim());
        (tool.name.clone(), *blake3::hash(text.as_bytes()).as_bytes())
    };
    tools.iter().map(of).collect()
}

/// A schema without what frameworks add; Gemini writes types in capitals.
fn undecorated(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| !DECORATION.contains(&name.as_str()));
            kept.map(|(name, value)| match value {
                Value::String(text) if name == "type" => (name.clone(), text.to_lowercase().into()),
                value => (name.clone(), undecorated(value)),
            })
            .collect()
        }
        Value::Array(items) => items.iter().map(undecorated).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_provider_wraps_its_tools_in_another_way() {
        let schema = json!({"type": "object", "properties": {"c": {"type": "string"}}});
        let all = [
            json!([{"type": "function", "function": {"name": "w", "description": "d", "parameters": schema}}]),
            json!([{"type": "function", "name": "w", "description": "d", "parameters": schema, "strict": true}]),
            json!([{"name": "w", "description": "d", "input_schema": schema}]),
            json!([{"functionDeclarations": [{"name": "w", "description": "d", "parameters": schema}]}]),
            json!({"tools": [{"toolSpec": {"name": "w", "description": "d", "inputSchema": {"json": schema}}}]}),
            json!([json!({"name": "w", "description": "d", "parameters": schema}).to_string()]),
        ];
        let first = read(&all[0]);
        assert_eq!((first[0].name.as_str(), first[0].description.as_str()), ("w", "d"));
        for value in &all {
            assert_eq!(read(value), first, "{value}");
        }
        let own =
            read(&json!([{"type": "web_search"}, {"googleSearch": {}}, {"cachePoint": {"type": "default"}}]));
        assert_eq!(own.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["web_search", "google_search"]);
    }

    #[test]
    fn what_a_framework_adds_makes_another_tool() {
        let tool =
            |parameters: Value| ToolDefinition { name: "w".into(), description: "d ".into(), parameters };
        let plain = tool(json!({"type": "object", "properties": {"c": {"type": "string"}}}));
        let decorated =
            tool(json!({"$schema": "x", "title": "W", "type": "OBJECT", "additionalProperties": false,
            "properties": {"c": {"title": "C", "type": "string"}}}));
        assert_eq!(prints(std::slice::from_ref(&plain)), prints(&[decorated]));
        assert_ne!(prints(&[plain]), prints(&[tool(json!({"type": "object"}))]));
    }
}
