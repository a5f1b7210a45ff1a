//! Durable log of what was received.
