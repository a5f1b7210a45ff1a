//! Tokens and costs: read whatever their form, inclusive, and counted once.

use serde_json::json;

use super::*;

fn tokens(run: &Run) -> (Option<u64>, Option<u64>) {
    (run.usage.input_tokens, run.usage.output_tokens)
}

/// langfuse#14068 (1): `{"intValue":"25"}` is how canonical OTLP/JSON writes an integer.
#[test]
fn a_count_in_a_string_is_no_count() {
    let json = br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"00000000000000000000000000000001",
        "spanId":"0000000000000001","name":"chat","startTimeUnixNano":"1","endTimeUnixNano":"2","attributes":[
        {"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},
        {"key":"gen_ai.usage.input_tokens","value":{"intValue":"25"}},
        {"key":"gen_ai.usage.output_tokens","value":{"intValue":7}}]}]}]}]}"#;
    let limits = crate::otlp::scan::Limits::from(&crate::config::otlp::Settings::default());
    let request = crate::otlp::json::decode_traces(json, &limits).unwrap();
    let span = request.resource_spans[0].scope_spans[0].spans[0].clone();
    let record = Arc::new(Record::new(Body::Span(span), Arc::default(), 1, 0));
    assert_eq!(tokens(&only(runs_of(&[record]))), (Some(25), Some(7)));
    let texts = json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": "25", "gen_ai.usage.output_tokens": "7"});
    assert_eq!(tokens(&run([span_of(texts)])), (Some(25), Some(7)));
}

fn span_of(attributes: Value) -> Sent {
    span(1, 0, "chat m", attributes)
}

/// langfuse#6024 (2), opik's mapping utilities (35), openrouter's spellings.
#[test]
fn an_unknown_or_odd_count_loses_the_span() {
    let read = step(span_of(json!({
        "gen_ai.operation.name": "chat", "gen_ai.usage.prompt_token_details.cached_tokens": 3,
        "gen_ai.usage.input_tokens": "\"10\"", "gen_ai.usage.output_tokens": "many", "gen_ai.usage.foo": {"a": [1]},
        "gen_ai.usage.completion_tokens": 4,
    })));
    assert_eq!((read.usage.input_tokens, read.usage.cache_read_tokens), (Some(10), Some(3)));
    assert_eq!(read.usage.output_tokens, Some(4), "the deprecated name fills what the newer one garbled");
}

/// langfuse#11244 (3): reasoning is part of the output.
#[test]
fn reasoning_is_added_to_the_output_that_holds_it() {
    let read = step(
        span(1, 0, "ai.streamText.doStream", json!({
            "ai.operationId": "ai.streamText.doStream", "gen_ai.usage.output_tokens": 1970, "ai.usage.reasoningTokens": "956",
        }))
        .scope("ai"),
    );
    assert_eq!((read.usage.output_tokens, read.usage.reasoning_tokens), (Some(1970), Some(956)));
}

/// langfuse#14754 (4), langfuse#7549 and strands harness-sdk#1267 (16), openinference#3164 (23), phoenix#12768 (22).
#[test]
fn the_sum_on_a_container_is_counted_again() {
    let usage = |i: u64, o: u64| json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": i, "gen_ai.usage.output_tokens": o});
    let semconv = run([
        span(1, 0, "invoke_agent a", json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 300, "gen_ai.usage.output_tokens": 30})).lasts(0, 100),
        span(2, 1, "chat m", usage(100, 10)),
        span(3, 1, "chat m", usage(200, 20)),
    ]);
    assert_eq!(tokens(&semconv), (Some(300), Some(30)));
    let kind = |kind: &str, i: u64| json!({"openinference.span.kind": kind, "llm.token_count.prompt": i, "llm.token_count.completion": 1, "tool.name": "t"});
    let openinference = run([
        span(1, 0, "run", kind("AGENT", 7)).lasts(0, 100),
        span(2, 1, "t", kind("TOOL", 7)).lasts(5, 90),
        span(3, 2, "llm", kind("LLM", 7)),
    ]);
    assert_eq!(tokens(&openinference), (Some(7), Some(1)));
}

/// langfuse#16409 (5): the root and the child of `embed()` bear one operation and one count.
#[test]
fn nested_embeddings_count_twice() {
    let embedding = json!({"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "e", "gen_ai.usage.input_tokens": 28});
    let read = run([
        span(1, 0, "embeddings e", embedding.clone()).lasts(0, 50),
        span(2, 1, "embeddings e", embedding),
    ]);
    assert_eq!((kinds(&read), tokens(&read).0), (vec!["embedding".to_owned()], Some(28)));
}

/// langfuse#8700 (13), phoenix#5590 (24), openinference#2101 (25), openinference#2119 (26).
#[test]
fn two_instrumentations_of_one_call_are_two_calls() {
    let framework = json!({"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o", "llm.token_count.prompt": 580, "llm.token_count.completion": 5});
    let sdk = json!({"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 580, "gen_ai.usage.output_tokens": 5});
    let read = run([
        span(1, 0, "OpenAI.chat", framework.clone())
            .lasts(0, 50)
            .scope("openinference.instrumentation.llama_index"),
        span(2, 1, "chat gpt-4o", sdk).scope("opentelemetry.instrumentation.openai_v2"),
    ]);
    assert_eq!((read.steps.len(), tokens(&read)), (1, (Some(580), Some(5))));
    assert_eq!(read.steps[0].superseded_spans.len(), 1);
    let twice =
        run([span(1, 0, "generate", framework.clone()).lasts(0, 50), span(2, 1, "generate", framework)]);
    assert_eq!(twice.steps.len(), 1);
}

/// langfuse#10592, #12306, #14725 (14): the input holds the cached tokens, whatever their key is called.
#[test]
fn cached_tokens_are_taken_from_the_input_or_added_to_it() {
    for key in [
        "gen_ai.usage.input_cached_tokens",
        "gen_ai.usage.cache_read.input_tokens",
        "cache_read_input_tokens",
    ] {
        let read = step(span_of(
            json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 13_675, key: 9216}),
        ));
        assert_eq!(
            (read.usage.input_tokens, read.usage.cache_read_tokens),
            (Some(13_675), Some(9216)),
            "{key}"
        );
    }
    // More cached than counted: the producer leaves the cache out.
    let apart = step(span_of(
        json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.cache_read.input_tokens": 90}),
    ));
    assert_eq!(apart.usage.input_tokens, Some(100));
}

/// strands harness-sdk#2010 (17): an agent reports what its whole session used.
#[test]
fn the_usage_of_a_session_is_that_of_a_request() {
    let read = run([
        span(
            1,
            0,
            "invoke_agent a",
            json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 300_000}),
        )
        .lasts(0, 50),
        span(2, 1, "chat", json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100_000})),
    ]);
    assert_eq!(tokens(&read).0, Some(100_000));
}

/// mlflow#24059 (38): the usage of OpenAI Agents' generations stands under the bare key `usage`.
#[test]
fn a_bare_usage_is_no_usage() {
    let read = step(span(
        1,
        0,
        "generation",
        json!({"mlflow.spanType": "\"LLM\"", "mlflow.spanInputs": "\"hi\"", "usage": "{\"input_tokens\": 12, \"output_tokens\": 3}"}),
    ));
    assert_eq!((read.usage.input_tokens, read.usage.output_tokens), (Some(12), Some(3)));
}

/// dd-trace-js#8936 (61): the framework's span is blind for the cache, the provider's is not.
#[test]
fn the_blinder_of_two_reports_gives_the_usage() {
    let model = |extra: Value| {
        let mut all = json!({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 50, "gen_ai.usage.output_tokens": 5});
        all.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        all
    };
    let outer = model(
        json!({"gen_ai.usage.cache_read.input_tokens": 0, "gen_ai.input.messages": "[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"q\"}]}]"}),
    );
    let read = run([
        span(1, 0, "ChatOpenAI", outer).lasts(0, 50),
        span(2, 1, "chat m", model(json!({"gen_ai.usage.cache_read.input_tokens": 40}))),
    ]);
    assert_eq!((read.steps.len(), read.usage.cache_read_tokens), (1, Some(40)));
}

/// One report of a call leaves the cache out that the other tells; counts that differ are never mixed.
#[test]
fn a_part_of_a_count_that_another_report_tells_is_lost() {
    let read = |outer: u64| {
        let framework = json!({"openinference.span.kind": "LLM", "llm.model_name": "m", "gen_ai.response.id": "r", "llm.token_count.prompt": outer, "llm.token_count.prompt_details.cache_read": 40});
        let sdk = json!({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.id": "r", "gen_ai.usage.input_tokens": 100});
        let usage =
            run([span(1, 0, "llm", framework).lasts(0, 50), span(2, 1, "chat", sdk).scope("sdk")]).usage;
        (usage.input_tokens, usage.cache_read_tokens)
    };
    assert_eq!((read(100), read(90)), ((Some(100), Some(40)), (Some(100), None)));
}

/// openinference#2268 (28): a stream's count is what its producer saw; it is given as it is, never filled up.
#[test]
fn a_low_count_of_a_stream_is_made_up_for() {
    let read = step(span_of(
        json!({"gen_ai.operation.name": "chat", "gen_ai.request.stream": true, "gen_ai.usage.output_tokens": 1}),
    ));
    assert_eq!((read.usage.output_tokens, read.usage.input_tokens), (Some(1), None));
}

/// Langfuse's buckets exclude each other; providers' names in the same attribute include.
#[test]
fn exclusive_buckets_are_taken_for_inclusive_counts() {
    let of = |details: &str| {
        step(span(
            1,
            0,
            "g",
            json!({"langfuse.observation.type": "generation", "langfuse.observation.usage_details": details}),
        ))
        .usage
    };
    let buckets = of(
        r#"{"input": 100, "input_cached_tokens": 40, "output": 5, "output_reasoning_tokens": 20, "total": 165}"#,
    );
    assert_eq!((buckets.input_tokens, buckets.output_tokens), (Some(140), Some(25)));
    let raw = of(
        r#"{"prompt_tokens": 100, "completion_tokens": 25, "prompt_tokens_details": {"cached_tokens": 40}}"#,
    );
    assert_eq!((raw.input_tokens, raw.cache_read_tokens), (Some(100), Some(40)));
}

/// A cost is told where a producer gave one, with its source, and is counted once.
#[test]
fn a_cost_is_made_up_or_counted_with_the_container() {
    let read = run([
        span(1, 0, "invoke_agent a", json!({"gen_ai.operation.name": "invoke_agent", "operation.cost": 0.5}))
            .lasts(0, 50),
        span(
            2,
            1,
            "chat",
            json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_cost": 0.25, "gen_ai.usage.output_cost": 0.125}),
        ),
    ]);
    assert_eq!(read.usage.cost_usd, Some(0.375));
    assert_eq!(read.steps[0].cost_source.as_deref(), Some("gen_ai.usage.input_cost"));
    assert_eq!(
        step(span_of(json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5})))
            .usage
            .cost_usd,
        None
    );
}

/// A container's sum is all there is: it is the run's usage, and no step's.
#[test]
fn a_sum_without_its_parts_is_dropped() {
    let read = run([
        span(
            1,
            0,
            "invoke_agent a",
            json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 300}),
        )
        .lasts(0, 50),
        span(2, 1, "chat", json!({"gen_ai.operation.name": "chat"})),
    ]);
    assert_eq!((tokens(&read).0, read.steps[0].usage.input_tokens), (Some(300), None));
}
