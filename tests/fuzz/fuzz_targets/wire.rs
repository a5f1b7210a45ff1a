//! Any JSON as a request to every surface of simulated replay: read or refused, and what was read is answered.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use spanreel::{
    genai::message::Part,
    replay::{
        sim::call::ModelAnswer,
        wire::{Anthropic, OpenAiChat, OpenAiResponses, Surface, anthropic, openai},
    },
};

const SURFACES: &[&dyn Surface] = &[&OpenAiChat, &OpenAiResponses, &Anthropic];

fuzz_target!(|bytes: &[u8]| {
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return };
    for surface in SURFACES {
        let Ok(call) = surface.read(&body, None, false) else { continue };
        // A program gives back what it was answered: what was read is written too.
        let parts: Vec<Part> = call.messages.iter().flat_map(|message| message.parts.clone()).collect();
        let answer = ModelAnswer { id: "0".repeat(24), parts, ..ModelAnswer::default() };
        assert!(surface.whole(&call, &answer).is_object());
        assert!(surface.frames(&call, &answer).len() > 2);
    }
    let _ = openai::read_embedding(&body, None);
    let _ = openai::wants_base64(&body);
    let _ = Anthropic.refuses(&body);
});
