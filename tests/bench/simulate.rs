//! What simulated replay costs: `cargo bench --no-default-features --bench simulate`.
//!
//! Two figures: how long a session over a run of 1,000 model calls takes to be ready, and how long a call takes over
//! loopback, from the request's first byte to the answer's last, beside a route that does nothing. Their difference is
//! what the answer itself costs.

// A benchmark that cannot run says so.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Router, routing::post};
use serde_json::{Value, json};
use spanreel::{
    api::sim::{
        router,
        sessions::{Order, Sessions},
    },
    config::Config,
    replay::{
        fixture,
        sim::session::{Session, Settings},
    },
    run::Run,
    tenant::TenantId,
};

const STEPS: usize = 1_000;
/// Turns of a conversation; then another begins.
const TURNS: usize = 50;
const ROUNDS: usize = 20;

fn main() {
    let run = Arc::new(run());
    let ready = quantiles((0..ROUNDS).map(|_| {
        let begun = Instant::now();
        let session = Session::new(vec![Arc::clone(&run)], Settings::default(), "seed".into()).unwrap();
        let took = begun.elapsed();
        drop(black_box(session));
        took
    }));
    println!("a session over {STEPS} steps is ready in {:.1} ms (median of {ROUNDS})", ready.0);

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sessions = Arc::new(Sessions::new(Config::default().simulation));
    let (secret, _) = sessions.open(TenantId::embedded(), vec![run], Order::default()).unwrap();
    let app: Router = router(Arc::clone(&sessions));
    let app = app.route("/nothing", post(|_: axum::body::Bytes| async { "{}" }));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    drop(runtime.spawn(async move { axum::serve(listener, app).await }));

    let agent = ureq::Agent::new_with_defaults();
    let ask = |path: &str, body: &Value| {
        let begun = Instant::now();
        let mut answer = agent.post(format!("http://{address}{path}")).send_json(body).unwrap();
        let _ = black_box(answer.body_mut().read_to_string().unwrap());
        begun.elapsed()
    };
    let bodies: Vec<Value> = (0..STEPS).map(body).collect();
    let nothing = quantiles(bodies.iter().map(|body| ask("/nothing", body)));
    let path = format!("/sim/{secret}/openai/v1/chat/completions");
    let answered = quantiles(bodies.iter().map(|body| ask(&path, body)));
    println!("a call over loopback, ms        p50     p99");
    println!("route that does nothing     {:>7.3} {:>7.3}", nothing.0, nothing.1);
    println!("answered from the record    {:>7.3} {:>7.3}", answered.0, answered.1);
    println!("added                       {:>7.3} {:>7.3}", answered.0 - nothing.0, answered.1 - nothing.1);
}

/// What is said before the model's turn `step`.
fn said(step: usize) -> Vec<Value> {
    let (talk, turn) = (step / TURNS, step % TURNS);
    let mut messages =
        vec![json!({"role": "system", "content": "You are a travel assistant. Use the tools."})];
    for n in 0..=turn {
        messages.push(json!({"role": "user", "content": format!("Question {n} of talk {talk}: do I need an umbrella in Paris today?")}));
        if n < turn {
            messages.push(json!({"role": "assistant", "content": format!("Answer {n} of talk {talk}: it rains, so take one.")}));
        }
    }
    messages
}

fn body(step: usize) -> Value {
    json!({"model": "gpt-4o", "messages": said(step)})
}

/// A run as a fixture would hold it.
fn run() -> Run {
    let mut messages: Vec<Value> = Vec::new();
    let steps: Vec<Value> = (0..STEPS)
        .map(|step| {
            let mut indexes = Vec::new();
            for message in said(step) {
                let message = json!({"role": message["role"], "parts": [{"type": "text", "content": message["content"]}]});
                // The history of a talk is at the end of the list.
                let known = messages.iter().rposition(|m| *m == message);
                indexes.push(known.unwrap_or_else(|| {
                    messages.push(message);
                    messages.len() - 1
                }));
            }
            let answer = format!("Answer {} of talk {}: it rains, so take one.", step % TURNS, step / TURNS);
            json!({
                "index": step, "kind": "model_call", "name": "gpt-4o", "model": "gpt-4o", "status": "ok",
                "input": {"state": "captured", "message_indexes": indexes},
                "output": {"state": "captured", "messages": [
                    {"role": "assistant", "parts": [{"type": "text", "content": answer}], "finish_reason": "stop"}]},
            })
        })
        .collect();
    let steps: Vec<fixture::Line> = steps.into_iter().map(|s| serde_json::from_value(s).unwrap()).collect();
    let messages: Vec<_> = messages.into_iter().map(|m| serde_json::from_value(m).unwrap()).collect();
    fixture::run_of(&json!({"run_id": "bench"}), &messages, &steps).unwrap()
}

/// Milliseconds: the median, and what 99 of 100 stay under.
fn quantiles(times: impl Iterator<Item = Duration>) -> (f64, f64) {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).unwrap().as_secs_f64() * 1e3;
    (at(50), at(99))
}
