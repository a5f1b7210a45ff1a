//! Retrievals, rerankings and embeddings.

use serde_json::json;

use super::*;
use crate::{genai::message::ContentState, run::model::StepKind};

/// The AI SDK's reranking: places in the list that was given.
#[test]
fn a_ranking_is_not_read() {
    let inner = json!({"ai.operationId": "ai.rerank.doRerank", "ai.model.id": "rr", "ai.documents": ["\"a\"", "\"b\""], "ai.ranking": ["{\"index\":1,\"relevanceScore\":0.9}", "{\"index\":0,\"relevanceScore\":0.1}"]});
    let read = run([
        span(1, 0, "ai.rerank", json!({"ai.operationId": "ai.rerank", "ai.model.id": "rr"}))
            .lasts(0, 90)
            .scope("ai"),
        span(2, 1, "ai.rerank.doRerank", inner).scope("ai"),
    ]);
    let ranked = only(read.steps);
    assert_eq!(
        (ranked.kind, ranked.input_state, ranked.output_state),
        (StepKind::Rerank, ContentState::Captured, ContentState::Captured)
    );
    let first = json!({"index": 1, "relevanceScore": 0.9, "document": "b"});
    assert_eq!(ranked.retrieval_documents.unwrap()[0], first);
}

/// OpenLLMetry's vector stores name no kind and no operation of the convention.
#[test]
fn a_search_in_a_vector_store_is_no_retrieval() {
    let found = |id: &str| json!({"db.query.result.id": id, "db.query.result.score": 0.1, "db.query.result.document": "D"});
    for attributes in
        [json!({"db.system": "chroma", "db.vector.query.top_k": 2}), json!({"db.system": "qdrant"})]
    {
        let read = step(
            span(1, 0, "chroma.query", attributes)
                .scope("opentelemetry.instrumentation.chromadb")
                .event("db.query.result", found("d1"))
                .event("db.query.result", found("d2")),
        );
        assert_eq!(read.kind, StepKind::Retrieval);
        assert_eq!(read.retrieval_documents.unwrap()[1]["id"], "d2");
    }
}

/// OpenLLMetry writes the documents of a reranking as system prompts, and the query as the user's.
#[test]
fn documents_are_taken_for_instructions() {
    let read = run([span(
        1,
        0,
        "cohere.rerank",
        json!({"llm.request.type": "rerank", "gen_ai.request.model": "rr", "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "doc", "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "ask"}),
    )]);
    let step = &read.steps[0];
    assert_eq!((step.retrieval_query.as_deref(), step.system_instructions.len()), (Some("ask"), 0));
    assert_eq!(text_in(&read, step), "docask");
}

/// Genkit asks with a document, VoltAgent with text.
#[test]
fn a_query_that_is_a_document_is_none() {
    let genkit = step(
        span(1, 0, "r", json!({"genkit:metadata:subtype": "retriever", "genkit:name": "r", "genkit:input": "{\"query\":{\"content\":[{\"text\":\"q?\"}]},\"options\":{\"k\":2}}", "genkit:output": "{\"documents\":[{\"content\":[{\"text\":\"doc\"}]}]}"}))
            .scope("genkit-tracer"),
    );
    assert_eq!(
        (genkit.retrieval_query.as_deref(), genkit.retrieval_documents.map(|d| d.as_array().unwrap().len())),
        (Some("q?"), Some(1))
    );
    let volt = |attributes: Value| step(span(1, 0, "x", attributes).scope("@voltagent/core"));
    let vector = volt(
        json!({"span.type": "vector", "entity.type": "agent", "input": "q", "output": "[{\"id\":\"1\"}]"}),
    );
    assert_eq!((vector.kind, vector.retrieval_query.as_deref()), (StepKind::Retrieval, Some("q")));
    let embedding = volt(json!({"span.type": "embedding", "entity.type": "agent", "input": "q"}));
    assert_eq!(embedding.kind, StepKind::Embedding);
}
