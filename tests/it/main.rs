//! What a user would run, against the real binary. One binary, one module a subject.

// A test that panics says where and why; that is its way to fail.
#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used
)]

mod api;
mod captures;
mod cli;
mod client;
mod collector;
mod conformance;
mod crash;
mod diff;
mod golden;
mod harness;
mod hostile;
mod load;
mod senders;
mod tables;
mod tidy;
mod truth;
mod watch;
