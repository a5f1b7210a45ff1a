//! MCP over Streamable HTTP: the tools are those of the record.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{respond, sessions::Simulation};
use crate::{
    replay::{
        sim::{
            call::{Answer, Call, Refused, RefusedCode, ToolDefinition},
            tools,
        },
        wire::mcp::{self, Request},
    },
    run::model::StepKind,
};

pub(super) async fn answer(simulation: &Arc<Simulation>, headers: &HeaderMap, body: &Value) -> Response {
    let version = headers.get("mcp-protocol-version").and_then(|value| value.to_str().ok());
    let posted = mcp::read(body, version);
    let mut responses = Vec::new();
    for message in &posted.messages {
        let response = match &message.request {
            Request::CallTool(call) => {
                let reply = simulation.answer(Arc::new(Call::Tool(call.clone())), false).await;
                Some(match &reply.answer {
                    Answer::Tool(tool) => message.answered(tool),
                    Answer::Failed(failed) => message.failed(failed),
                    Answer::Refused(refused) => message.refused(refused),
                    _ => message.refused(&Refused {
                        code: RefusedCode::LiveBlocked,
                        step: None,
                        message: format!(
                            "spanreel: the policy wants {} live, which MCP cannot do here",
                            call.name
                        ),
                    }),
                })
            }
            Request::ListTools => message.response(&definitions(simulation)),
            _ => message.response(&[]),
        };
        responses.extend(response);
    }
    match posted.body(responses) {
        Some(body) => respond::json(body),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// The tools that models were offered, and those that were called without.
fn definitions(simulation: &Simulation) -> Vec<ToolDefinition> {
    let mut all: BTreeMap<String, ToolDefinition> = BTreeMap::new();
    for step in simulation.runs().iter().flat_map(|run| &run.steps) {
        if step.kind == StepKind::ToolCall {
            let plain = || ToolDefinition {
                name: step.name.clone(),
                description: String::new(),
                parameters: json!({"type": "object"}),
            };
            let _ = all.entry(step.name.clone()).or_insert_with(plain);
        }
        for tool in step.tool_definitions.iter().flat_map(tools::read) {
            let _ = all.insert(tool.name.clone(), tool);
        }
    }
    all.into_values().collect()
}
