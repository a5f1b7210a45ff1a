//! Runs -> Delta tables -> rows.
#[cfg(feature = "sql")]
pub mod sql;
