//! Documents that answer for a run, and simulated replay.

pub mod diff;
pub mod document;
pub mod export;
pub mod fixture;
pub mod redact;
pub mod sim;
pub mod wire;
