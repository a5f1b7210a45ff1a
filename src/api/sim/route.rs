//! Paths of providers -> what they ask for. Clients append different versions to one base URL, so that every version,
//! several, or none is taken.

use axum::http::Method;
use percent_encoding::percent_decode_str;

use crate::replay::wire::{Anthropic, Bedrock, Gemini, OpenAiChat, OpenAiResponses, Surface};

/// What a request asks for.
pub(super) enum Ask {
    Model { surface: &'static dyn Surface, model: Option<String>, streams: bool },
    OpenAiEmbedding,
    OpenAiModels(Option<String>),
    AnthropicCount,
    AnthropicModels(Option<String>),
    GeminiCount,
    GeminiEmbedding { model: String, is_batch: bool },
    Tool(String),
    Mcp,
    McpNoStream,
    McpEnd,
}

/// What a request to `path` (behind the secret, not decoded) asks for; `None` when nothing serves it.
pub(super) fn of(method: &Method, path: &str) -> Option<Ask> {
    let decoded = path.split('/').filter(|segment| !segment.is_empty());
    let decoded: Vec<String> =
        decoded.map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned()).collect();
    let (surface, rest) = decoded.split_first()?;
    let is_version = |segment: &&String| matches!(segment.as_str(), "v1" | "v1beta" | "v1beta1" | "v1alpha");
    let rest: Vec<&str> = rest.iter().skip_while(is_version).map(String::as_str).collect();
    let (post, get) = (method == Method::POST, method == Method::GET);
    let model = |surface: &'static dyn Surface| Ask::Model { surface, model: None, streams: false };
    Some(match (surface.as_str(), &*rest) {
        ("openai", ["chat", "completions"]) if post => model(&OpenAiChat),
        ("openai", ["responses"]) if post => model(&OpenAiResponses),
        ("openai", ["embeddings"]) if post => Ask::OpenAiEmbedding,
        ("openai", ["models"]) if get => Ask::OpenAiModels(None),
        ("openai", ["models", name @ ..]) if get => Ask::OpenAiModels(Some(name.join("/"))),
        ("anthropic", ["messages"]) if post => model(&Anthropic),
        ("anthropic", ["messages", "count_tokens"]) if post => Ask::AnthropicCount,
        ("anthropic", ["models"]) if get => Ask::AnthropicModels(None),
        ("anthropic", ["models", name]) if get => Ask::AnthropicModels(Some((*name).to_owned())),
        ("gemini", [.., "models", action]) if post => gemini(action)?,
        ("bedrock", ["model", id, action @ ("converse" | "converse-stream")]) if post => Ask::Model {
            surface: &Bedrock,
            model: Some((*id).to_owned()),
            streams: *action == "converse-stream",
        },
        ("tools", [name]) if post => Ask::Tool((*name).to_owned()),
        ("mcp", []) if post => Ask::Mcp,
        // There are no messages but answers.
        ("mcp", []) if get => Ask::McpNoStream,
        ("mcp", []) if method == Method::DELETE => Ask::McpEnd,
        _ => return None,
    })
}

fn gemini(action: &str) -> Option<Ask> {
    let (model, action) = action.rsplit_once(':')?;
    let model = model.to_owned();
    let ask = |streams| Ask::Model { surface: &Gemini, model: Some(model.clone()), streams };
    Some(match action {
        "generateContent" => ask(false),
        "streamGenerateContent" => ask(true),
        "countTokens" => Ask::GeminiCount,
        "embedContent" => Ask::GeminiEmbedding { model, is_batch: false },
        "batchEmbedContents" => Ask::GeminiEmbedding { model, is_batch: true },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(method: &Method, path: &str) -> String {
        match of(method, path) {
            None => "-".into(),
            Some(Ask::Model { model, streams, .. }) => format!("model {model:?} {streams}"),
            Some(Ask::Tool(name)) => format!("tool {name}"),
            Some(Ask::GeminiEmbedding { model, is_batch }) => format!("embed {model} {is_batch}"),
            Some(Ask::OpenAiModels(name)) => format!("models {name:?}"),
            Some(_) => "other".into(),
        }
    }

    #[test]
    fn a_client_appends_another_version_than_was_thought_of() {
        for path in [
            "openai/v1/chat/completions",
            "openai/chat/completions",
            "anthropic/v1/messages",
            "anthropic/v1/v1/messages",
            "anthropic/messages",
            "openai/v1/responses/",
        ] {
            assert_eq!(name(&Method::POST, path), "model None false", "{path}");
        }
        for path in [
            "gemini/v1beta/models/g:generateContent",
            "gemini/models/g:generateContent",
            "gemini/v1beta1/publishers/google/models/g:generateContent",
        ] {
            assert_eq!(name(&Method::POST, path), "model Some(\"g\") false", "{path}");
        }
        let bedrock = "bedrock/model/us.anthropic.claude-v1%3A0/converse-stream";
        assert_eq!(name(&Method::POST, bedrock), "model Some(\"us.anthropic.claude-v1:0\") true");
        assert_eq!(name(&Method::POST, "tools/orders%2Fsearch"), "tool orders/search");
        assert_eq!(name(&Method::POST, "gemini/v1/models/e:batchEmbedContents"), "embed e true");
        assert_eq!(name(&Method::GET, "openai/v1/models/org/m"), "models Some(\"org/m\")");
        for path in ["", "openai", "openai/v1/files", "gemini/v1/models/g:tune", "other/v1/x", "tools/a/b"] {
            assert_eq!(name(&Method::POST, path), "-", "{path}");
        }
    }
}
