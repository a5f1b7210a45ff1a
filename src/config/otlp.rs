//! Settings of `otlp`.
