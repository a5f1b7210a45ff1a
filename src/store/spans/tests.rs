use opentelemetry_proto::tonic::trace::v1::Span;

use super::*;
use crate::otlp::record::Body;

fn record(trace: u8, span: u8) -> Arc<Record> {
    let span =
        Span { trace_id: vec![trace; 16], span_id: vec![span; 8], name: "chat".into(), ..Span::default() };
    Arc::new(Record::new(Body::Span(span), Arc::default(), 5, 1))
}

#[test]
fn a_flush_that_stops_after_any_write_and_is_repeated_loses_and_doubles_nothing() {
    let records = [record(1, 1), record(1, 2), record(2, 1)];
    let traces = records.iter().map(|r| r.trace_id()).collect();
    let mut finished = false;
    for steps in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let objects = Objects::new(dir.path());
        objects.fail_after(steps);
        let flushed = Spans::open(objects, TenantId::embedded()).unwrap().append("n", 3, &records, 0);
        finished |= flushed.is_ok();
        let mut spans = Spans::open(Objects::new(dir.path()), TenantId::embedded()).unwrap();
        let _ = spans.append("n", 3, &records, 0).unwrap();
        assert_eq!(
            spans.append("n", 4, &records, 0).unwrap(),
            Outcome::Committed(2),
            "a retry adds a txn only"
        );
        let reopened = Spans::open(Objects::new(dir.path()), TenantId::embedded()).unwrap();
        assert_eq!(reopened.flushed("n"), Some(4));
        assert_eq!(reopened.records(&traces).unwrap().len(), 3, "stopped after {steps} writes");
        let live: usize = reopened.state.files.len();
        assert_eq!(live, 1, "stopped after {steps} writes");
    }
    assert!(finished, "the last tries must run to their end");
}
