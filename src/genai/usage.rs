//! Token counts, made inclusive (`dialects.md` B3).

use super::{attrs::Attrs, operation::Usage};

const INPUT: &[&str] = &["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"];
const OUTPUT: &[&str] = &["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"];
const CACHE_READ: &[&str] = &[
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cached_input_tokens",
    "gen_ai.usage.input_cached_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cache_read_input_tokens",
    "gen_ai.usage.prompt_tokens_details.cached_tokens",
    "gen_ai.usage.prompt_token_details.cached_tokens",
    "cache_read_input_tokens",
];
const CACHE_WRITE: &[&str] = &[
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "gen_ai.usage.cache_write_tokens",
    "gen_ai.usage.details.cache_write_tokens",
];
const REASONING: &[&str] = &[
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "gen_ai.usage.completion_tokens_details.reasoning_tokens",
];
const COST: &[&str] = &["gen_ai.usage.cost", "gen_ai.cost.total_cost", "operation.cost"];
const AGGREGATED: &[(&str, &str)] =
    &[("gen_ai.aggregated_usage.input_tokens", "gen_ai.aggregated_usage.output_tokens")];

/// The usage that the convention's attributes tell, and the attribute that gave the cost.
pub fn read(attrs: &Attrs) -> (Usage, Option<String>) {
    let mut usage = Usage {
        input_tokens: attrs.count(INPUT),
        output_tokens: attrs.count(OUTPUT),
        cache_read_tokens: attrs.count(CACHE_READ),
        cache_write_tokens: attrs.count(CACHE_WRITE),
        reasoning_tokens: attrs.count(REASONING),
        cost_usd: attrs.float(COST),
    };
    for (input, output) in AGGREGATED {
        usage.input_tokens = usage.input_tokens.or_else(|| attrs.count(&[input]));
        usage.output_tokens = usage.output_tokens.or_else(|| attrs.count(&[output]));
    }
    let source = COST.iter().find(|k| attrs.float(&[k]).is_some()).map(|k| (*k).to_owned());
    (inclusive(usage), source)
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
