//! Bodies of any kind to Gemini, Bedrock and MCP: refused with a reason, or read, and what was read can be answered with.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use spanreel::replay::{
    sim::call::{ModelAnswer, ToolAnswer},
    wire::{
        Surface,
        Bedrock,
        gemini::{self, Gemini},
        mcp,
    },
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return };
    for surface in [&Gemini as &dyn Surface, &Bedrock] {
        let Ok(call) = surface.read(&body, Some("m"), true) else { continue };
        let parts = call.messages.iter().flat_map(|message| message.parts.clone()).collect();
        let answer = ModelAnswer { parts, ..ModelAnswer::default() };
        assert!(surface.whole(&call, &answer).is_object());
        assert!(!surface.frames(&call, &answer).is_empty());
    }
    let _ = gemini::read_embedding(&body, None);
    for version in [None, Some("2025-06-18"), Some("2026-07-28")] {
        for message in &mcp::read(&body, version).messages {
            let _ = message.response(&[]);
            let answer = ToolAnswer { step: None, result: body.clone(), is_error: false };
            assert!(message.answered(&answer)["result"]["content"].is_array());
        }
    }
});
