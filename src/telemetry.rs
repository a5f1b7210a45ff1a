//! Own metrics: every metric is a field here, so that names and labels are a closed set.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

macro_rules! metrics {
    ($($(#[$doc:meta])* $field:ident: $type:ty, $name:literal, $help:literal;)*) => {
        /// The server's counters and gauges; cheap to share behind an `Arc`.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            $($(#[$doc])* #[doc = $help] pub $field: $type,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix("spanreel");
                $(let $field = <$type>::default(); registry.register($name, $help, $field.clone());)*
                Self { registry, $($field,)* }
            }
        }
    };
}

metrics! {
    requests: Counter, "otlp_requests", "Export requests received";
    requests_refused: Counter, "otlp_requests_refused", "Export requests refused whole";
    spans_accepted: Counter, "spans_accepted", "Spans acknowledged";
    spans_rejected: Counter, "spans_rejected", "Spans rejected in a partial success";
    logs_accepted: Counter, "log_records_accepted", "Log records acknowledged";
    logs_discarded: Counter, "log_records_discarded", "Log records without GenAI content, discarded after the ack";
    metric_points_discarded: Counter, "metric_points_discarded", "Metric data points, accepted and discarded";
    wal_bytes: Gauge, "wal_bytes", "Bytes of WAL segments on disk";
    wal_quarantined: Counter, "wal_frames_quarantined", "Frames set aside because they could not be read or processed";
    hot_bytes: Gauge, "hot_bytes", "Approximate bytes of the records in memory";
    commits: Counter, "table_commits", "Commits to the tables";
    commit_failures: Counter, "table_commit_failures", "Commits that failed and will be tried again";
    runs_assembled: Counter, "runs_assembled", "Runs assembled, for readers and for the tables";
}

impl Metrics {
    /// The exposition text for `/metrics` (OpenMetrics).
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
