//! Who serves a model, in the convention's words (`dialects.md` 1.3, 1.7).

use super::attrs::Attrs;

const KEYS: &[&str] = &[
    "gen_ai.provider.name",
    "gen_ai.system",
    "llm.provider",
    "llm.system",
    "ai.model.provider",
    "aisdk.model.provider",
    "mlflow.llm.provider",
    "langsmith.metadata.ls_provider",
    "anthropic.provider",
];
/// Words that producers write, and the convention's. A key also stands for what follows it behind a dot.
const ALIASES: &[(&str, &str)] = &[
    ("vertex_ai", "gcp.vertex_ai"),
    ("vertexai", "gcp.vertex_ai"),
    ("google-vertex", "gcp.vertex_ai"),
    ("google.vertex", "gcp.vertex_ai"),
    ("gemini", "gcp.gemini"),
    ("google", "gcp.gemini"),
    ("google_genai", "gcp.gemini"),
    ("azure", "azure.ai.openai"),
    ("azure-openai", "azure.ai.openai"),
    ("azure_openai", "azure.ai.openai"),
    ("az.ai.inference", "azure.ai.inference"),
    ("az.ai.openai", "azure.ai.openai"),
    ("xai", "x_ai"),
    ("mistral", "mistral_ai"),
    ("mistralai", "mistral_ai"),
    ("aws", "aws.bedrock"),
    ("bedrock", "aws.bedrock"),
    ("amazon", "aws.bedrock"),
    ("amazon-bedrock", "aws.bedrock"),
    ("aws_bedrock", "aws.bedrock"),
    ("watsonx", "ibm.watsonx.ai"),
    ("openai", "openai"),
    ("anthropic", "anthropic"),
    ("cohere", "cohere"),
    ("groq", "groq"),
    ("deepseek", "deepseek"),
    ("perplexity", "perplexity"),
];
/// Namespaces of the convention: behind their dot stands a service, not an API.
const NAMESPACES: &[&str] = &["aws.", "azure.ai.", "gcp.", "ibm."];
/// Frameworks that write their own name where the provider belongs, and words for nothing.
const NOT_PROVIDERS: &[&str] = &[
    "langchain",
    "langgraph",
    "crewai",
    "strands-agents",
    "autogen",
    "spring_ai",
    "litellm",
    "llamaindex",
    "llama_index",
    "haystack",
    "gcp.vertex.agent",
    "pydantic_ai",
    "pydantic-ai",
    "microsoft.agent_framework",
    "mastra",
    "firstparty",
    "none",
    "unknown",
    "",
];
const HOSTS: &[(&str, &str)] = &[
    ("openai.azure.com", "azure.ai.openai"),
    ("api.openai.com", "openai"),
    ("anthropic.com", "anthropic"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("amazonaws.com", "aws.bedrock"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.groq.com", "groq"),
    ("api.deepseek.com", "deepseek"),
    ("api.cohere.com", "cohere"),
    ("api.x.ai", "x_ai"),
];
const MODELS: &[(&str, &str)] = &[
    ("gpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("text-embedding-", "openai"),
    ("claude-", "anthropic"),
    ("gemini-", "gcp.gemini"),
    ("mistral-", "mistral_ai"),
    ("deepseek-", "deepseek"),
    ("command-", "cohere"),
    ("grok-", "x_ai"),
];

/// The provider that the attributes name, else the one that the server's address tells.
pub(super) fn read(attrs: &Attrs) -> Option<String> {
    let named = KEYS.iter().find_map(|key| normalize(&attrs.text(&[key])?));
    named.or_else(|| {
        let host = attrs.text(&["server.address"])?;
        HOSTS.iter().find(|(end, _)| host.ends_with(end)).map(|(_, provider)| (*provider).to_owned())
    })
}

/// Whose models Bedrock serves, as its model ids begin, behind a region where there is one.
const BEDROCK: &[&str] =
    &["anthropic.", "amazon.", "meta.", "mistral.", "cohere.", "ai21.", "deepseek.", "openai."];
const REGIONS: &[&str] = &["us.", "eu.", "apac.", "global."];

/// The provider whose models bear such names.
pub(super) fn of_model(model: &str) -> Option<String> {
    let unplaced = REGIONS.iter().find_map(|region| model.strip_prefix(region)).unwrap_or(model);
    if BEDROCK.iter().any(|vendor| unplaced.starts_with(vendor)) {
        return Some("aws.bedrock".to_owned());
    }
    let bare = model.rsplit(['/', ':']).next().unwrap_or(model);
    if let Some((before, _)) = model.split_once(['/', ':'])
        && let Some((_, provider)) = ALIASES.iter().find(|(alias, _)| *alias == before)
    {
        return Some((*provider).to_owned());
    }
    MODELS.iter().find(|(start, _)| bare.starts_with(start)).map(|(_, provider)| (*provider).to_owned())
}

fn normalize(name: &str) -> Option<String> {
    let name = name.trim().trim_matches('"').to_ascii_lowercase();
    if NOT_PROVIDERS.contains(&name.as_str()) {
        return None;
    }
    if NAMESPACES.iter().any(|space| name.starts_with(space)) {
        return Some(name);
    }
    let stands =
        |alias: &str| name.strip_prefix(alias).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let current = ALIASES.iter().filter(|(alias, _)| stands(alias)).max_by_key(|(alias, _)| alias.len());
    Some(current.map_or(name.clone(), |(_, current)| (*current).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_providers_old_or_dotted_name_is_taken_for_another_provider() {
        for (said, meant) in [
            ("OpenAI", Some("openai")),
            ("openai.responses", Some("openai")),
            ("google.vertex.chat", Some("gcp.vertex_ai")),
            ("google.generative-ai", Some("gcp.gemini")),
            ("azure.ai.openai", Some("azure.ai.openai")),
            ("az.ai.inference", Some("azure.ai.inference")),
            ("Langchain", None),
            ("None", None),
            ("moonshot_ai", Some("moonshot_ai")),
        ] {
            assert_eq!(normalize(said).as_deref(), meant, "{said}");
        }
    }
}
