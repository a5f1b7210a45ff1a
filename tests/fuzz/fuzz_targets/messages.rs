//! Message JSON of any kind: the fast reader reads what the tolerant one reads, the first time and the second.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use spanreel::genai::{
    parse::{Seen, messages, messages_seen},
    state,
};

fuzz_target!(|text: &str| {
    let value = Value::from(text);
    let slow = messages(&value, "user", &mut Vec::new());
    let mut seen = Seen::default();
    for _ in 0..2 {
        assert!(messages_seen(&value, "user", &mut Vec::new(), &mut seen) == slow);
    }
    let _ = state::open(&value);
});
