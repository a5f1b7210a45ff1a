//! The report for people, and for test runners.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use super::super::text::{clean, count, duration, wrap};
use crate::replay::{
    diff::{json::Change, words::Op},
    sim::report::{Miss, Report, Rung, StepRef, Verdict},
};

/// Steps that are listed where a list would go on.
const LISTED_MAX: usize = 10;
/// Characters of a value that is shown.
const VALUE_CHARS_MAX: usize = 200;

/// Writes the report in 80 columns.
pub(super) fn show(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let told = match report.verdict {
        Verdict::Same => "the same as recorded",
        Verdict::Diverged => "diverged from the record",
        Verdict::Hole => "fell into a hole of the record",
        Verdict::Blocked => "a call was blocked",
        Verdict::Budget => "the budget is spent",
    };
    writeln!(out, "simulation of {} ({}): {told}", clean(&report.run_id), report.simulation.mode)?;
    let answered = u64::try_from(report.matches.len()).unwrap_or(u64::MAX);
    let exact = report.matches.iter().filter(|found| found.rung == Rung::Exact).count();
    writeln!(out, "  {} answered, {exact} exactly; {} refused", count(answered, "call"), report.extra.len())?;
    for found in
        report.matches.iter().filter(|found| found.rung != Rung::Exact || found.patched).take(LISTED_MAX)
    {
        let patched = if found.patched { ", with the answer of a patch" } else { "" };
        writeln!(out, "  {} matched as {}{patched}", named(&found.step), word(found.rung))?;
        found.drift.iter().take(LISTED_MAX).try_for_each(|change| show_change(change, out))?;
    }
    if let Some(first) = &report.first_divergence {
        writeln!(out, "first divergence")?;
        show_miss(first, out)?;
    }
    for miss in report.extra.iter().skip(1).take(LISTED_MAX) {
        writeln!(out, "  {}", wrap(&miss.message, 4))?;
    }
    list("recorded and not asked for", &report.unused, out)?;
    list("tools whose result never came back", &report.unseen, out)?;
    if !report.synthesized.is_empty() {
        writeln!(out, "{}", wrap(&format!("made up, not recorded: {}", report.synthesized.join(", ")), 2))?;
    }
    let saved = &report.saved;
    let calls = u64::from(saved.model_calls);
    let tokens = saved.input_tokens.saturating_add(saved.output_tokens);
    let cost = saved.cost_usd.map(|cost| format!(", ${cost:.2}")).unwrap_or_default();
    let time = duration(Some(saved.duration_ms));
    writeln!(out, "saved: {}, {}, {time}{cost}", count(calls, "model call"), count(tokens, "token"))
}

/// The rung, as JSON has it.
fn word(rung: Rung) -> String {
    serde_json::to_value(rung).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

fn named(step: &StepRef) -> String {
    let run = step.run_id.as_ref().map(|run| format!("{} ", clean(run))).unwrap_or_default();
    format!("{run}step {} {}", step.step_index, clean(&step.name))
}

fn list(what: &str, steps: &[StepRef], out: &mut dyn Write) -> io::Result<()> {
    if steps.is_empty() {
        return Ok(());
    }
    writeln!(out, "{what}: {}", steps.len())?;
    steps.iter().take(LISTED_MAX).try_for_each(|step| writeln!(out, "  {}", named(step)))
}

fn show_miss(miss: &Miss, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  {}", wrap(&miss.message, 4))?;
    miss.diffs.iter().take(LISTED_MAX).try_for_each(|change| show_change(change, out))
}

fn show_change(change: &Change, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "    {}", clean(&change.path))?;
    if change.words.is_empty() {
        for (sign, value) in [('-', &change.before), ('+', &change.after)] {
            if let Some(value) = value {
                let text: String = value.to_string().chars().take(VALUE_CHARS_MAX).collect();
                writeln!(out, "    {sign} {}", wrap(&text, 6))?;
            }
        }
        return Ok(());
    }
    for (sign, op) in [('-', Op::Delete), ('+', Op::Insert)] {
        let pieces = change.words.iter().filter(|piece| piece.op == op);
        let text = pieces.map(|piece| piece.text.trim()).collect::<Vec<_>>().join(" … ");
        if !text.is_empty() {
            let text: String = text.chars().take(VALUE_CHARS_MAX).collect();
            writeln!(out, "    {sign} {}", wrap(&text, 6))?;
        }
    }
    Ok(())
}

/// A test case for each step that answered, was not asked for, or was asked for in vain.
pub(super) fn junit(report: &Report) -> String {
    let failures = report.extra.len() + report.unused.len();
    let tests = report.matches.len() + failures;
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let name = escape(&report.run_id);
    let _ = writeln!(xml, "<testsuite name=\"spanreel {name}\" tests=\"{tests}\" failures=\"{failures}\">");
    let case = |xml: &mut String, title: &str| {
        let _ = write!(xml, "  <testcase classname=\"{name}\" name=\"{}\"", escape(title));
    };
    for found in &report.matches {
        case(&mut xml, &named(&found.step));
        xml.push_str("/>\n");
    }
    for step in &report.unused {
        case(&mut xml, &named(step));
        xml.push_str(">\n    <failure message=\"recorded and not asked for\"/>\n  </testcase>\n");
    }
    for miss in &report.extra {
        case(&mut xml, &format!("call of {}", miss.name));
        let diffs = serde_json::to_string_pretty(&miss.diffs).unwrap_or_default();
        let (message, diffs) = (escape(&miss.message), escape(&diffs));
        let _ = writeln!(xml, ">\n    <failure message=\"{message}\">{diffs}</failure>\n  </testcase>");
    }
    xml.push_str("</testsuite>\n");
    xml
}

/// Text for XML; what XML cannot hold becomes U+FFFD.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
