use serde_json::json;

use super::*;

fn shown(document: &Value, colour: bool) -> String {
    let mut out = Vec::new();
    show(document, Paint::new(colour), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn document() -> Value {
    let side = |id: &str| {
        json!({"run_id": id, "status": "completed", "replayability": "complete", "steps": 4,
            "duration_ms": 1200.0, "usage": {"input_tokens": 20, "output_tokens": 4}})
    };
    json!({
        "same": false, "a": side("r1"), "b": side("r2"),
        "summary": {"same": 2, "changed": 1, "only_in_a": 1, "only_in_b": 1, "areas": {"output": 1, "tokens": 1}},
        "changes": [{"path": "/status", "before": "completed", "after": "failed",
            "words": [{"op": "delete", "text": "completed"}, {"op": "insert", "text": "failed"}]}],
        "steps": [
            {"op": "same", "a": 0, "b": 0, "kind": "model_call", "name": "m"},
            {"op": "same", "a": 1, "b": 1, "kind": "tool_call", "name": "t", "inherited": 2},
            {"op": "changed", "a": 2, "b": 2, "kind": "model_call", "name": "m", "inherited": 1,
                "tokens": {"before": {"input_tokens": 10, "output_tokens": 2},
                    "after": {"input_tokens": 10, "output_tokens": 3}},
                "duration_ms": {"before": 900.0, "after": 1100.0},
                "changes": [
                    {"path": "/output/messages/0/parts/0/content", "before": "It is sunny.", "after": "It is rainy.",
                        "words": [{"op": "equal", "text": "It is "}, {"op": "delete", "text": "sunny"},
                            {"op": "insert", "text": "rainy\u{1b}[2J"}, {"op": "equal", "text": "."}]},
                    {"path": "/request/temperature", "before": null, "after": 0.5}]},
            {"op": "only_in_a", "a": 3, "kind": "tool_call", "name": "pay"},
            {"op": "only_in_b", "b": 3, "kind": "tool_call", "name": "book"}]
    })
}

#[test]
fn what_differs_is_not_seen_at_a_glance() {
    let expected = "   STATUS     STEPS  TIME   TOKENS  RUN
a  completed  4      1.2 s  20+4    r1
b  completed  4      1.2 s  20+4    r2
differs: the run ended otherwise, 1 step changed (output 1, tokens 1), 1 step
  only in a, 1 step only in b; 2 steps the same

the run
    status
      [-completed-]{+failed+}

  2 steps the same, but for changes above that they repeat
#2 model_call m
    output/messages/0/parts/0/content
      It is [-sunny-]{+rainy [2J+}.
    request/temperature
      - null
      + 0.5
    tokens: 10+2 -> 10+3
    time: 900 ms -> 1.1 s
    repeats 1 change of steps above
- #3 only in a: tool_call pay
+ #3 only in b: tool_call book
";
    assert_eq!(shown(&document(), false), expected);
    let coloured = shown(&document(), true);
    assert!(coloured.contains("It is \u{1b}[31msunny\u{1b}[0m\u{1b}[32mrainy"), "{coloured}");
}

#[test]
fn a_long_text_fills_the_terminal() {
    let long = "x".repeat(500) + " " + &"word ".repeat(5_000) + &"é".repeat(300);
    let words = json!([{"op": "equal", "text": long}, {"op": "delete", "text": long},
        {"op": "insert", "text": " "}, {"op": "equal", "text": long}]);
    let mut out = Vec::new();
    words::show(words.as_array().unwrap(), Paint::new(false), &mut out).unwrap();
    words::show_whole(words::INSERT, &long, Paint::new(false), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().count() < 16 && text.contains("words more"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
}
