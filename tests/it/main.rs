//! What a user would run, against the real binary. One binary, one module a subject.

mod captures;
mod cli;
mod crash;
mod harness;
mod tables;
mod tidy;
mod truth;
