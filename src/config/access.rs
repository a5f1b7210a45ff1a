//! Settings of `access`.
