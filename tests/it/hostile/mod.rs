//! Hostile and heavy senders against the real binary: what each costs, and what others get meanwhile.
//!
//! `SPANREEL_HOSTILE=full` runs the longer forms; figures hold for a release build (`cargo test --release`).

mod bombs;
mod cut;
mod depth;
mod frames;
mod full_disk;
mod http2;
mod pressure;
mod slow;
mod wire;
