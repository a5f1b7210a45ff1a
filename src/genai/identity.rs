//! Where a record belongs: run ids, conversation, user, thread (`dialects.md` C).

use super::{
    attrs::Attrs,
    operation::{CheckpointRef, Identity, Rule},
};

/// Every attribute that names a run, with its rule, strongest first.
pub const RUN_IDS: &[(Rule, &str)] = &[
    (Rule::EaiRunId, "eai.run_id"),
    (Rule::Configured, "spanreel.run_id"),
    (Rule::Producer, "gen_ai.agent.call.id"),
    (Rule::Producer, "gcp.vertex.agent.invocation_id"),
    (Rule::Producer, "prompt.id"),
    (Rule::Producer, "mlflow.traceRequestId"),
];
const CONVERSATION: &[&str] = &[
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "langsmith.metadata.thread_id",
    "langsmith.metadata.session_id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "ai.telemetry.metadata.sessionId",
    "gcp.vertex.agent.session_id",
    "checkpoint.session_id",
    "spring.ai.chat.client.conversation.id",
    "thread_id",
    "conversation.id",
];
const USER: &[&str] = &["user.id", "enduser.id", "langfuse.user.id", "gen_ai.user", "gen_ai.request.user"];
const THREAD: &[&str] =
    &["langsmith.metadata.thread_id", "traceloop.association.properties.thread_id", "thread_id"];
/// Checkpoint ids: attribute, and whether the record shows the checkpoint being made.
const CHECKPOINTS: &[(&str, bool)] = &[
    ("gen_ai.checkpoint.id", true),
    ("checkpoint.id", true),
    ("resume.checkpoint_id", false),
    ("gen_ai.context.checkpoint_id", false),
];

/// The identity that a span's or log's attributes give, with scope and resource as fallback for conversation and user.
pub fn read(attrs: &Attrs, scope: &Attrs, resource: &Attrs) -> Identity {
    let conversation = [attrs, scope, resource].iter().find_map(|a| a.text(CONVERSATION));
    let run_ids = RUN_IDS.iter().filter_map(|(rule, key)| {
        let own = attrs.text(&[key]);
        let id = if *rule <= Rule::Configured { own.or_else(|| resource.text(&[key])) } else { own };
        Some((*rule, id.filter(|id| is_run_id(id))?))
    });
    Identity {
        run_ids: run_ids.collect(),
        user: [attrs, scope, resource].iter().find_map(|a| a.text(USER)),
        thread: attrs.text(THREAD).filter(|t| Some(t) != conversation.as_ref()),
        conversation,
        simulation_id: resource.text(&["spanreel.simulation_id"]),
        links_join: false,
    }
}

/// The checkpoints that a record's attributes name.
pub fn checkpoints(attrs: &Attrs) -> Vec<CheckpointRef> {
    let named = CHECKPOINTS.iter().filter_map(|(key, recorded)| {
        Some(CheckpointRef {
            checkpoint_id: attrs.text(&[key])?,
            thread_id: attrs.text(THREAD),
            source: (*key).to_owned(),
            recorded: *recorded,
            ..CheckpointRef::default()
        })
    });
    named.collect()
}

/// 1 to 256 bytes without control characters (design section 4).
fn is_run_id(id: &str) -> bool {
    (1..=256).contains(&id.len()) && !id.chars().any(char::is_control)
}
