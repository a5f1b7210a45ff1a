//! Simulated replay: a run's record answers the calls of an agent that is executed again.
//!
//! ```text
//! provider request -> wire -> Call -> canonical form -> keys -> ladder -> Answer -> wire -> provider response
//! recorded step ----------------------^
//! ```
//!
//! The record is telemetry and the live request is a provider's wire format, so both are brought to one canonical form
//! and compared there. Nothing here reads a socket, a clock or a file: the same calls give the same answers and the same
//! report.

pub mod call;
pub mod policy;
pub mod report;
pub mod session;
pub mod tools;
mod answers;
mod canon;
mod facets;
mod holes;
mod ladder;
mod misses;
mod nearest;
mod plan;
mod volatile;
#[cfg(test)]
mod tests;
