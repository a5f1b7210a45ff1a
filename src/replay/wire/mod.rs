//! The wire formats of model providers and of MCP: requests -> [`Call`](super::sim::call::Call), answers -> responses.
//!
//! One file a surface. None of them knows a session: what they read and write is in no provider's shape on the inner
//! side. What clients send and accept was measured; the rules stand beside the code that keeps them.

pub mod anthropic;
pub mod gemini;
pub mod mcp;
pub mod openai;
mod answer;
mod bedrock;
mod error;
mod event_stream;
#[cfg(test)]
mod fixture;
mod members;
mod openai_chat;
pub mod openai_responses;
mod request;
#[cfg(test)]
mod robustness;

pub use anthropic::Anthropic;
pub use bedrock::Bedrock;
pub use gemini::Gemini;
pub use openai_chat::OpenAiChat;
pub use openai_responses::OpenAiResponses;

use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::Value;

use super::sim::call::{Failed, ModelAnswer, ModelCall, Refused};

/// A way to ask a model over HTTP.
pub trait Surface: Sync {
    /// The call that a request makes. `path_model` is the model named in the path, for those that name it there;
    /// `path_streams` is true when the path asks for a stream.
    ///
    /// # Errors
    /// The request is none of this surface; the text says what is missing, for people.
    fn read(&self, body: &Value, path_model: Option<&str>, path_streams: bool) -> Result<ModelCall, String>;

    /// The error for a request whose kind is not served at all; it is no call, and is not compared with the record.
    fn refuses(&self, _body: &Value) -> Option<ErrorResponse> {
        None
    }

    /// Puts what a call refers to in its place. `given` knows the answers of the session by their id.
    fn resolve(&self, _call: &mut ModelCall, _given: &dyn Fn(&str) -> Option<ModelAnswer>) {}

    /// The response that holds `answer` whole.
    fn whole(&self, call: &ModelCall, answer: &ModelAnswer) -> Value;

    /// The response as a stream: its frames in order, each complete. The whole grammar is sent, since every event but a
    /// few is needed by some client. The first frame that brings content marks the time to first token.
    fn frames(&self, call: &ModelCall, answer: &ModelAnswer) -> Vec<Bytes>;

    /// Media type of a stream.
    fn stream_media(&self) -> &'static str {
        "text/event-stream"
    }

    /// A recorded failure, with the status that was recorded.
    fn failed(&self, failed: &Failed) -> ErrorResponse;

    /// A refusal, shaped so that the client shows its message and does not send again.
    fn refused(&self, refused: &Refused) -> ErrorResponse;
}

/// An error in a provider's own shape.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorResponse {
    /// Status of the answer.
    pub status: StatusCode,
    /// Headers beside the content type, lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Value,
}

/// Characters of a piece of streamed text: about what a token holds.
const PIECE_CHARS: usize = 12;

/// `text` in pieces as a stream gives them: cut before blanks where there are some. Never empty pieces; none for "".
pub fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut begin, mut count) = (0, 0);
    for (at, c) in text.char_indices() {
        let boundary = count >= PIECE_CHARS || count >= PIECE_CHARS / 3 && c == ' ';
        if boundary {
            pieces.extend(text.get(begin..at));
            (begin, count) = (at, 0);
        }
        count += 1;
    }
    pieces.extend(text.get(begin..).filter(|rest| !rest.is_empty()));
    pieces
}

/// One server-sent event; with a name where the surface has names.
pub fn event(name: Option<&str>, data: &Value) -> Bytes {
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    Bytes::from(format!("{name}data: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::pieces;

    proptest! {
        #[test]
        fn a_streamed_text_loses_or_gains_a_character(text in ".{0,200}") {
            let pieces = pieces(&text);
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
            prop_assert_eq!(pieces.concat(), text);
        }
    }
}
