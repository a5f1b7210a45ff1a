//! Runs -> Delta tables -> rows.

pub mod delta;
pub mod object;
pub mod parquet;
pub mod rows;
pub mod schema;
pub mod spans;
