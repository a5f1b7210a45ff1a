//! Runs -> Delta tables -> rows.
