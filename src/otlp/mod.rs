//! Bytes in, bytes acknowledged.

pub mod record;
