//! Records and runs as rows, and back.

pub mod spans;
pub mod value;
