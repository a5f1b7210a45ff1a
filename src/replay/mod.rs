//! Documents that answer for a run.

pub mod document;
pub mod export;
