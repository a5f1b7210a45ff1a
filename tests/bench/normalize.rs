//! What normalization costs, against the least that any reader of JSON pays: `cargo bench --bench normalize`.
//!
//! Three figures over the same bytes, a history of 40 messages, in one run: the floor (`serde_json` ignoring everything,
//! plus one BLAKE3 of the bytes), messages that are new, and messages that were seen before in the run. Each is the median
//! of many rounds; the ratios are what counts.

// A benchmark that cannot run says so.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::{hint::black_box, time::Instant};

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use spanreel::genai::parse::{Seen, messages_seen};

const ROUNDS: usize = 400;

fn main() {
    println!("bytes of a text   floor us   new us   new/floor   seen us   seen/floor");
    for length in [200, 1_000, 4_000] {
        let text = history(length);
        let value = Value::String(text.clone());
        let floor = median(|| {
            let ignored: IgnoredAny = serde_json::from_slice(black_box(text.as_bytes())).unwrap();
            let _ = black_box((ignored, blake3::hash(black_box(text.as_bytes()))));
        });
        let mut issues = Vec::new();
        let new = median(|| {
            let mut seen = Seen::default();
            let _ = black_box(messages_seen(black_box(&value), "user", &mut issues, &mut seen));
        });
        let mut seen = Seen::default();
        let _ = messages_seen(&value, "user", &mut issues, &mut seen);
        let again = median(|| {
            let _ = black_box(messages_seen(black_box(&value), "user", &mut issues, &mut seen));
        });
        let ratio = |time: f64| time / floor;
        println!(
            "{length:>15} {floor:>10.1} {new:>8.1} {:>11.2} {again:>9.1} {:>12.2}",
            ratio(new),
            ratio(again)
        );
    }
}

/// Turns of a model that asks for a tool, the tool's answer, and text, as an instrumentation writes them.
fn history(length: usize) -> String {
    // As prose is written: a line break after some eighty bytes, a quotation now and then.
    let text = "The order was placed on Monday and left the warehouse the day after that.\n\
        The customer says that the parcel \"never arrived\", and asks for a refund now.\n";
    let text: String = text.chars().cycle().take(length).collect();
    let turns = (0..10).flat_map(|turn| {
        let id = format!("call_{turn}");
        [
            json!({"role": "user", "parts": [{"type": "text", "content": text}]}),
            json!({"role": "assistant", "parts": [{"type": "tool_call", "id": id, "name": "search", "arguments": {"q": text}}]}),
            json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": id, "response": text}]}),
            json!({"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": "stop"}),
        ]
    });
    turns.collect::<Value>().to_string()
}

/// Microseconds of the middle round.
fn median(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times.get(ROUNDS / 2).unwrap().as_secs_f64() * 1e6
}
