//! The Delta log: the small part of the protocol that the tables use, read and written by ourselves.

pub mod actions;
pub mod log;
