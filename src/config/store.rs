//! Settings of `store`.
