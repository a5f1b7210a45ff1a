//! Settings of `access`.

use serde::{Deserialize, Serialize};

/// Who may use the server. Without keys only loopback addresses are served, all as tenant `default`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Keys that are let in; `spanreel keys new --name N --tenant T --role R` prints an entry. Roles: writer sends
    /// telemetry and reads nothing, developer sends and reads, auditor reads what runs did and no content, admin all.
    /// keys: [{name: collector, hash: "64 hex digits", tenant: acme, role: writer}]
    pub keys: Vec<KeyEntry>,
}

/// One key, as the configuration file holds it: its hash, never the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// A name for people; shows in messages, so that a key can be told apart without its text.
    pub name: String,
    /// BLAKE3 of the key's text, 64 hex digits.
    pub hash: String,
    /// The tenant whose records the key writes and reads.
    pub tenant: String,
    /// What the key may do.
    pub role: Role,
}

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sends telemetry and checkpoints; reads nothing.
    Writer,
    /// Sends and reads, content included.
    Developer,
    /// Reads what runs did, never the content of messages and tools.
    Auditor,
    /// Everything.
    Admin,
}
