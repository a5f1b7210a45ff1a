//! Settings of `wal`.
