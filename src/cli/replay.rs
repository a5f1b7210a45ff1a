//! `spanreel replay RUN`: what was said and done, in order.

use std::{
    collections::HashSet,
    io::{self, Write},
};

use clap::Args;
use serde_json::Value;

use super::{
    Failure,
    failure::exit,
    source::Place,
    steps,
    text::{block, clean, cut, width},
    write_json,
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Run id, or an alias of it
    run: String,
    #[command(flatten)]
    place: Place,
    /// The replay document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let document = arguments.place.open()?.replay(&arguments.run)?;
    if arguments.json {
        write_json(out, &document)?;
        return Ok(exit::DONE);
    }
    transcript(&document, out, width())?;
    steps::show(&document, out)?;
    Ok(exit::DONE)
}

fn transcript(document: &Value, out: &mut dyn Write, width: usize) -> io::Result<()> {
    // Standard output writes line by line.
    let mut out = io::BufWriter::new(out);
    let mut told = Transcript { out: &mut out, width, said: HashSet::new(), answered: HashSet::new() };
    for step in document.get("steps").and_then(Value::as_array).into_iter().flatten() {
        told.step(step)?;
    }
    out.flush()
}

/// A run as it is told: what was said before is not said again.
struct Transcript<'a> {
    out: &'a mut dyn Write,
    width: usize,
    said: HashSet<String>,
    /// Calls whose result stands at the step of the tool.
    answered: HashSet<String>,
}

impl Transcript<'_> {
    /// What is new in a step: its input, the output of a model, arguments and result of a tool.
    fn step(&mut self, step: &Value) -> io::Result<()> {
        let text = |name: &str| step.get(name).and_then(Value::as_str).map(clean).unwrap_or_default();
        let title =
            format!("#{} {} {}", step.get("index").unwrap_or(&Value::Null), text("kind"), text("name"));
        writeln!(self.out, "{}", cut(&title, self.width))?;
        let instructions = step.pointer("/input/system_instructions").unwrap_or(&Value::Null);
        if self.is_new("system", instructions) {
            self.parts("system", instructions)?;
        }
        self.messages(step, "/input/messages")?;
        self.messages(step, "/output/messages")?;
        if let Some(id) = step.pointer("/tool/call_id").and_then(Value::as_str)
            && step.pointer("/tool/result").is_some_and(|result| !result.is_null())
        {
            let _ = self.answered.insert(id.to_owned());
        }
        let tool = [("/tool/arguments", "arguments"), ("/tool/result", "result")];
        let retrieval = [("/retrieval/query", "query"), ("/retrieval/documents", "documents")];
        for (at, what) in
            tool.into_iter().chain(retrieval).chain([("/decision", "decision"), ("/error", "error")])
        {
            self.say(what, step.pointer(at).unwrap_or(&Value::Null))?;
        }
        Ok(())
    }

    fn messages(&mut self, step: &Value, at: &str) -> io::Result<()> {
        for message in step.pointer(at).and_then(Value::as_array).into_iter().flatten() {
            let role = message.get("role").and_then(Value::as_str).unwrap_or("message");
            let parts = message.get("parts").unwrap_or(&Value::Null);
            if self.is_new(role, parts) {
                self.parts(role, parts)?;
            }
        }
        Ok(())
    }

    fn is_new(&mut self, role: &str, parts: &Value) -> bool {
        self.said.insert(format!("{role} {parts}"))
    }

    fn parts(&mut self, role: &str, parts: &Value) -> io::Result<()> {
        for part in parts.as_array().into_iter().flatten() {
            let member = |name: &str| part.get(name).unwrap_or(&Value::Null);
            match member("type").as_str().unwrap_or_default() {
                "text" => self.say(role, member("content"))?,
                "reasoning" => self.say(&format!("{role} (reasoning)"), member("content"))?,
                "tool_call" => {
                    let name = member("name").as_str().unwrap_or_default();
                    self.say(&format!("{role} calls {name}"), member("arguments"))?;
                }
                "tool_call_response"
                    if member("id").as_str().is_some_and(|id| self.answered.contains(id)) => {}
                "tool_call_response" => self.say("result", member("response"))?,
                kind => self.say(&format!("{role} {kind}"), part)?,
            }
        }
        Ok(())
    }

    fn say(&mut self, what: &str, value: &Value) -> io::Result<()> {
        match value {
            Value::Null => Ok(()),
            Value::String(said) => block(self.out, what, said, self.width),
            other => block(self.out, what, &other.to_string(), self.width),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Scenario: a model is asked and calls a tool; the tool answers; the model is asked again with all of it.
    /// Guarantee: question, call, arguments, result and answer show, in order, each once, in lines of 80 columns.
    #[test]
    fn a_transcript_leaves_out_what_was_asked() {
        let text =
            |role: &str, said: &str| json!({"role": role, "parts": [{"type": "text", "content": said}]});
        let long = "where is it ".repeat(20);
        let call = json!({"role": "assistant", "parts":
            [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": "x"}}]});
        let answer = json!({"role": "tool", "parts":
            [{"type": "tool_call_response", "id": "c1", "response": {"hits": 2}}]});
        let system = json!([{"type": "text", "content": "be brief"}]);
        let input = |messages: Value| json!({"system_instructions": system, "messages": messages});
        let steps = [
            json!({"index": 0, "kind": "model_call", "name": "m", "input": input(json!([text("user", &long)])),
                "output": {"messages": [call]}}),
            json!({"index": 1, "kind": "tool_call", "name": "find",
                "tool": {"call_id": "c1", "arguments": {"q": "x"}, "result": {"hits": 2}}}),
            json!({"index": 2, "kind": "model_call", "name": "m",
                "input": input(json!([text("user", &long), call, answer])),
                "output": {"messages": [text("assistant", "there are two")]}}),
        ];
        let mut out = Vec::new();
        transcript(&json!({"steps": steps}), &mut out, 80).unwrap();
        let told = String::from_utf8(out).unwrap();
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
        let lines = [
            "#0 model_call m",
            "system: be brief",
            "user: where",
            r#"assistant calls find: {"q":"x"}"#,
            "#1 tool_call find",
            r#"arguments: {"q":"x"}"#,
            r#"result: {"hits":2}"#,
            "#2 model_call m",
            "assistant: there are two",
        ];
        let places: Vec<_> = lines.iter().map(|line| told.find(line)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {told}");
        assert!(lines.iter().all(|line| told.matches(line).count() == 1), "{told}");
    }
}
