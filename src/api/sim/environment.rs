//! The environment that leads the clients of model providers to a simulation. Which client reads which variable, and
//! what it appends, was measured.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

/// Clients want a key, and theirs must not go out.
const KEY: &str = "spanreel";

/// Variables for the process of the agent. Clients read them when they are built, some when they are imported.
pub fn variables(base_url: &str, simulation_id: &str, run_id: Option<&str>) -> Value {
    let parent = run_id.map(|id| utf8_percent_encode(id, NON_ALPHANUMERIC).to_string()).unwrap_or_default();
    let attributes = format!("spanreel.simulation_id={simulation_id},spanreel.parent_run_id={parent}");
    let at = |path: &str| format!("{base_url}/{path}");
    let all = [
        ("OPENAI_BASE_URL", at("openai/v1")),
        ("OPENAI_API_BASE", at("openai/v1")),
        ("OPENAI_API_KEY", KEY.into()),
        ("ANTHROPIC_BASE_URL", at("anthropic")),
        ("ANTHROPIC_API_BASE", at("anthropic")),
        ("ANTHROPIC_API_KEY", KEY.into()),
        ("GOOGLE_GEMINI_BASE_URL", at("gemini")),
        ("GOOGLE_VERTEX_BASE_URL", at("gemini")),
        ("GEMINI_API_BASE", at("gemini")),
        ("GEMINI_API_KEY", KEY.into()),
        ("GOOGLE_API_KEY", KEY.into()),
        ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", at("bedrock")),
        ("AWS_BEDROCK_RUNTIME_ENDPOINT", at("bedrock")),
        ("AWS_ACCESS_KEY_ID", KEY.into()),
        ("AWS_SECRET_ACCESS_KEY", KEY.into()),
        ("AWS_SESSION_TOKEN", KEY.into()),
        ("AWS_REGION", "us-east-1".into()),
        ("AWS_DEFAULT_REGION", "us-east-1".into()),
        // It asks the network for prices when it is imported.
        ("LITELLM_LOCAL_MODEL_COST_MAP", "True".into()),
        ("SPANREEL_SIMULATION_ID", simulation_id.into()),
        ("SPANREEL_SIMULATION_URL", base_url.into()),
        ("SPANREEL_MCP_URL", at("mcp")),
        ("OTEL_RESOURCE_ATTRIBUTES", attributes),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect::<Map<_, _>>().into()
}
