//! What differs between two runs. Pure: no I/O, no clock; what a comparison costs is bounded by counting.

mod digest;
pub(crate) mod json;
pub(crate) mod words;
