//! spanreel turns OpenTelemetry GenAI spans into ordered, replayable runs.

// In the order data meets them; a module uses only those above it.
pub mod config;
pub mod clock;
pub mod tenant;
pub mod telemetry;
pub mod wal;
pub mod otlp;
pub mod genai;
pub mod run;
pub mod store;
pub mod replay;
pub mod api;
pub mod cli;
