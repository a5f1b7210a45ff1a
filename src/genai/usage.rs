//! Token counts, made inclusive (`dialects.md` B3), and cost where a producer gave one.

use serde_json::Value;

use super::{
    attrs::{self, Attrs},
    operation::Usage,
    state,
};

const INPUT: &[&str] = &[
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
    "ai.usage.tokens",
    "llm.usage.prompt_tokens",
    "usage.prompt_tokens",
    "gen_ai.response.prompt_tokens",
    "gen_ai.aggregated_usage.input_tokens",
];
const OUTPUT: &[&str] = &[
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
    "llm.usage.completion_tokens",
    "usage.completion_tokens",
    "gen_ai.response.completion_tokens",
    "gen_ai.aggregated_usage.output_tokens",
];
const CACHE_READ: &[&str] = &[
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cached_input_tokens",
    "gen_ai.usage.input_cached_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cache_read_input_tokens",
    "gen_ai.usage.prompt_tokens_details.cached_tokens",
    "gen_ai.usage.prompt_token_details.cached_tokens",
    "llm.token_count.prompt_details.cache_read",
    "llm.token_count.prompt_details.cache_input",
    "ai.usage.cachedInputTokens",
    "ai.usage.inputTokenDetails.cacheReadTokens",
    "llm.usage.cached_tokens",
    "usage.cached_tokens",
    "cache_read_input_tokens",
];
const CACHE_WRITE: &[&str] = &[
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "gen_ai.usage.cache_write_tokens",
    "gen_ai.usage.details.cache_write_tokens",
    "llm.token_count.prompt_details.cache_write",
    "ai.usage.inputTokenDetails.cacheWriteTokens",
];
/// Parts of what was written to the cache, by how long it is kept.
const CACHE_WRITE_KEPT: &[&str] = &[
    "gen_ai.usage.cache_creation.input_tokens.ephemeral_5m",
    "gen_ai.usage.cache_creation.input_tokens.ephemeral_1h",
];
const REASONING: &[&str] = &[
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "gen_ai.usage.completion_tokens_details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "llm.usage.reasoning_tokens",
    "ai.usage.outputTokenDetails.reasoningTokens",
    "ai.usage.reasoningTokens",
];
/// Attributes that hold a cost, strongest first.
const COST: &[&str] =
    &["gen_ai.usage.cost", "gen_ai.cost.total_cost", "llm.cost.total", "operation.cost", "cost_usd"];
/// Costs in two halves.
const COST_HALVES: &[(&str, &str)] =
    &[("gen_ai.usage.input_cost", "gen_ai.usage.output_cost"), ("llm.cost.prompt", "llm.cost.completion")];

/// The usage that a record's attributes tell, and the attribute that gave the cost.
pub fn read(attrs: &Attrs) -> (Usage, Option<String>) {
    let mut usage = Usage {
        input_tokens: attrs.count(INPUT),
        output_tokens: attrs.count(OUTPUT),
        cache_read_tokens: attrs.count(CACHE_READ),
        cache_write_tokens: attrs.count(CACHE_WRITE).or_else(|| {
            let kept = CACHE_WRITE_KEPT.iter().filter_map(|key| attrs.count(&[key]));
            kept.reduce(u64::saturating_add)
        }),
        reasoning_tokens: attrs.count(REASONING),
        cost_usd: attrs.float(COST),
    };
    let mut source = COST.iter().find(|k| attrs.float(&[k]).is_some()).copied();
    if usage.cost_usd.is_none()
        && let Some((input, output)) = COST_HALVES.iter().find(|(input, _)| attrs.float(&[input]).is_some())
    {
        usage.cost_usd = attrs.float(&[input]).map(|cost| cost + attrs.float(&[output]).unwrap_or(0.0));
        source = Some(input);
    }
    (inclusive(usage), source.map(str::to_owned))
}

/// The usage in an object of a provider's or a framework's response.
pub fn of_object(object: &Value) -> Usage {
    let total = || {
        ["total_tokens", "total_token_count", "totalTokens"]
            .iter()
            .find_map(|k| attrs::count(object.get(*k)?))
    };
    let at = |path: &str| path.split('/').try_fold(object, |value, key| value.get(key));
    let first = |paths: &[&str]| paths.iter().find_map(|path| attrs::count(at(path)?));
    let mut usage = Usage {
        input_tokens: first(&[
            "input_tokens",
            "prompt_tokens",
            "prompt_token_count",
            "inputTokens",
            "promptTokens",
        ]),
        output_tokens: first(&[
            "output_tokens",
            "completion_tokens",
            "candidates_token_count",
            "outputTokens",
            "completionTokens",
        ]),
        cache_read_tokens: first(&[
            "cache_read_input_tokens",
            "input_token_details/cache_read",
            "input_tokens_details/cached_tokens",
            "prompt_tokens_details/cached_tokens",
            "cached_content_token_count",
            "cachedInputTokens",
            "cached_tokens",
        ]),
        cache_write_tokens: first(&[
            "cache_creation_input_tokens",
            "input_token_details/cache_creation",
            "cacheCreationInputTokens",
        ]),
        reasoning_tokens: first(&[
            "output_token_details/reasoning",
            "output_tokens_details/reasoning_tokens",
            "completion_tokens_details/reasoning_tokens",
            "thoughts_token_count",
            "thoughtsTokens",
            "reasoningTokens",
            "reasoning_tokens",
        ]),
        cost_usd: None,
    };
    // The total tells whether reasoning is counted beside the output.
    if let (Some(input), Some(output), Some(reasoning)) =
        (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens)
        && reasoning > 0
        && total() == Some(input.saturating_add(output).saturating_add(reasoning))
    {
        usage.output_tokens = Some(output.saturating_add(reasoning));
    }
    inclusive(usage)
}

/// The usage that a recorded response holds, wherever its producer puts it; also in the `repr` of a Python object.
pub fn of_response(response: &Value) -> Usage {
    let opened = state::open(response).value;
    const PLACES: &[&str] = &[
        "/usage",
        "/raw/usage",
        "/usage_metadata",
        "/llm_output/token_usage",
        "/response_metadata/token_usage",
        "/replies/0/meta/usage",
    ];
    if let Some(counts) = PLACES.iter().find_map(|place| opened.pointer(place).filter(|c| c.is_object())) {
        let mut usage = of_object(counts);
        // Anthropic's own count of the input leaves the cache out.
        let cached = ["cache_read_input_tokens", "cache_creation_input_tokens"];
        let beside = cached.iter().filter_map(|key| attrs::count(counts.get(*key)?));
        if let Some(fresh) = counts.get("input_tokens").and_then(attrs::count) {
            usage.input_tokens = Some(beside.fold(fresh, u64::saturating_add));
        }
        return usage;
    }
    let raw = opened.get("raw").and_then(Value::as_str).unwrap_or_default();
    let count = |name: &str| {
        let (_, rest) = raw.split_once(name)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Usage {
        cache_read_tokens: count("cached_tokens="),
        reasoning_tokens: count("reasoning_tokens="),
        ..Usage::default()
    }
}

/// Fills what `usage` leaves open. A count that two sources give stays that of the stronger, and is never added.
pub fn fill(usage: &mut Usage, from: Usage) {
    usage.input_tokens = usage.input_tokens.or(from.input_tokens);
    usage.output_tokens = usage.output_tokens.or(from.output_tokens);
    usage.cache_read_tokens = usage.cache_read_tokens.or(from.cache_read_tokens);
    usage.cache_write_tokens = usage.cache_write_tokens.or(from.cache_write_tokens);
    usage.reasoning_tokens = usage.reasoning_tokens.or(from.reasoning_tokens);
    usage.cost_usd = usage.cost_usd.or(from.cost_usd);
}

/// Adds cache and reasoning where they are greater than the count that should hold them.
pub fn inclusive(mut usage: Usage) -> Usage {
    let cached = usage.cache_read_tokens.unwrap_or(0).saturating_add(usage.cache_write_tokens.unwrap_or(0));
    if let Some(input) = usage.input_tokens
        && cached > input
    {
        usage.input_tokens = Some(input.saturating_add(cached));
    }
    if let (Some(output), Some(reasoning)) = (usage.output_tokens, usage.reasoning_tokens)
        && reasoning > output
    {
        usage.output_tokens = Some(output.saturating_add(reasoning));
    }
    usage
}
