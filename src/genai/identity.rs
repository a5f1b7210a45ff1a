//! Where a record belongs: run ids, conversation, user, thread (`dialects.md` C).

use super::{
    attrs::Attrs,
    metadata::Metadata,
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
/// The convention's own word goes before the word of any SDK.
const CONVERSATION: &[&str] = &[
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "lmnr.association.properties.session_id",
];
/// What names a conversation where neither the record nor its metadata does.
const CONVERSATION_ELSE: &[&str] = &[
    "gcp.vertex.agent.session_id",
    "checkpoint.session_id",
    "spring.ai.chat.client.conversation.id",
    "voltagent.conversation_id",
    "wandb.thread_id",
    "genkit:sessionId",
    "mlflow.trace.session",
    "thread_id",
    "conversation.id",
];
const USER: &[&str] = &["user.id", "enduser.id", "langfuse.user.id"];
const USER_ELSE: &[&str] = &["gen_ai.user", "gen_ai.request.user", "llm.user", "mlflow.trace.user"];
/// Checkpoint ids: attribute, and whether the record shows the checkpoint being made.
const CHECKPOINTS: &[(&str, bool)] = &[
    ("gen_ai.checkpoint.id", true),
    ("checkpoint.id", true),
    ("resume.checkpoint_id", false),
    ("gen_ai.context.checkpoint_id", false),
];

/// The identity that a span's or log's attributes give, with scope and resource as fallback for conversation and user.
pub(super) fn read(attrs: &Attrs, metadata: &Metadata, scope: &Attrs, resource: &Attrs) -> Identity {
    let first = |own: &[&str], from_metadata: Option<String>, other: &[&str]| {
        let of_span = attrs.text(own).or(from_metadata).or_else(|| attrs.text(other));
        of_span.or_else(|| [scope, resource].iter().find_map(|a| a.text(own).or_else(|| a.text(other))))
    };
    let conversation = first(CONVERSATION, metadata.session(), CONVERSATION_ELSE);
    let run_ids = RUN_IDS.iter().filter_map(|(rule, key)| {
        let own = attrs.text(&[key]).map(|id| id.trim_matches('"').to_owned());
        let id = if *rule <= Rule::Configured { own.or_else(|| resource.text(&[key])) } else { own };
        Some((*rule, id.filter(|id| is_run_id(id))?))
    });
    Identity {
        run_ids: run_ids.collect(),
        user: first(USER, metadata.user(), USER_ELSE),
        thread: metadata
            .thread()
            .or_else(|| attrs.text(&["thread_id"]))
            .filter(|t| Some(t) != conversation.as_ref()),
        conversation,
        simulation_id: resource.text(&["spanreel.simulation_id"]),
        parent_run_id: resource.text(&["spanreel.parent_run_id"]),
        links_join: false,
        links_resume: false,
        ties: Vec::new(),
    }
}

/// Digits of a simulation's id that tell its run apart.
const APART_CHARS: usize = 12;

/// An agent that is executed again names its run and its calls as it did before. What a simulation names is its own.
pub(super) fn tell_apart(identity: &mut Identity) {
    let Some(simulation) = &identity.simulation_id else { return };
    let own: String = simulation.chars().take(APART_CHARS).collect();
    let names = identity.run_ids.iter_mut().map(|(_, id)| id);
    for name in names.chain(&mut identity.ties) {
        name.push('~');
        name.push_str(&own);
    }
}

/// The checkpoints that a record's attributes name.
pub(super) fn checkpoints(attrs: &Attrs, metadata: &Metadata) -> Vec<CheckpointRef> {
    let named = CHECKPOINTS.iter().filter_map(|(key, recorded)| {
        Some(CheckpointRef {
            checkpoint_id: attrs.text(&[key])?,
            thread_id: metadata.thread().or_else(|| attrs.text(&["thread_id"])),
            source: (*key).to_owned(),
            recorded: *recorded,
            ..CheckpointRef::default()
        })
    });
    named.chain(metadata.checkpoint()).collect()
}

/// 1 to 256 bytes without control characters (design section 4).
fn is_run_id(id: &str) -> bool {
    (1..=256).contains(&id.len()) && !id.chars().any(char::is_control)
}
