//! Documents that answer for a run.

pub mod diff;
pub mod document;
pub mod export;
