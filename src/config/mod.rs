//! The whole configuration tree: YAML over defaults, unknown keys refused. One file a section.

pub mod access;
pub mod otlp;
pub mod store;
pub mod wal;
