//! Microsoft Agent Framework: its workflow engine. Agents, models and tools speak the convention.

use super::{Dialect, Facts, fill};
use crate::genai::operation::{Kind, Operation};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "agent-framework", detect, kind, read };

/// Names of the engine's spans; some carry the executor's id behind a space.
const SPANS: &[(&str, Kind)] = &[
    ("workflow.run", Kind::Workflow),
    ("workflow.build", Kind::Internal),
    ("executor.process", Kind::Internal),
    ("edge_group.process", Kind::Internal),
    ("message.send", Kind::Internal),
];

fn detect(facts: &Facts<'_>) -> bool {
    facts.scope.starts_with("agent_framework")
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let name = facts.span.name.split(' ').next().unwrap_or_default();
    SPANS.iter().find(|(span, _)| *span == name).map(|(_, kind)| *kind)
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    if operation.kind == Kind::Workflow {
        fill(&mut operation.workflow_name, || facts.attrs.text(&["workflow.name", "workflow.id"]));
        operation.declared = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DIALECTS, read as read_all};
    use super::*;
    use crate::genai::attrs::Attrs;
    use opentelemetry_proto::tonic::{
        common::v1::{AnyValue, KeyValue, any_value::Value},
        trace::v1::Span,
    };

    fn of(scope: &str, name: &str) -> Operation {
        let value = Some(AnyValue { value: Some(Value::StringValue("triage".into())) });
        let attribute = KeyValue { key: "workflow.name".into(), value, ..KeyValue::default() };
        let span = Span { name: name.into(), attributes: vec![attribute], ..Span::default() };
        let attrs = Attrs::new(&span.attributes);
        let mut operation = Operation::default();
        read_all(
            &Facts { span: &span, attrs: &attrs, events: &[], log: None, scope, seen: &Default::default() },
            &mut operation,
        );
        operation
    }

    #[test]
    fn the_engine_of_a_workflow_is_not_taken_for_a_foreign_span() {
        assert!(DIALECTS.iter().any(|d| d.name == DIALECT.name));
        let run = of("agent_framework", "workflow.run");
        assert_eq!((run.kind, run.declared), (Kind::Workflow, true));
        assert_eq!(run.workflow_name.as_deref(), Some("triage"));
        let executor = of("agent_framework", "executor.process writer");
        assert_eq!((executor.kind, executor.declared), (Kind::Internal, false));
    }

    #[test]
    fn another_producers_workflow_run_is_not_claimed() {
        assert_eq!(of("ci", "workflow.run").kind, Kind::Foreign);
    }
}
