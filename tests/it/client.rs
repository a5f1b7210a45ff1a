//! An OTLP client that sends bytes as a test makes them, over each wire, and tells what was answered.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use base64::Engine;
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use serde_json::Value;

use crate::harness::Server;

/// Longer than any answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Protobuf,
    Json,
    Grpc,
}

/// What was answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    wire: Wire,
    /// The status of HTTP, or the code of gRPC.
    pub(crate) code: u16,
    /// The content type of the answer.
    pub(crate) content_type: String,
    /// What is said of a refusal or of a partial success.
    pub(crate) message: String,
    pub(crate) rejected_spans: i64,
    /// `Retry-After` or `RetryInfo`.
    pub(crate) advice: Option<Duration>,
    pub(crate) took: Duration,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        if self.wire == Wire::Grpc { self.code == 0 } else { self.code == 200 }
    }

    /// As OTLP says which codes are.
    pub(crate) fn is_retryable(&self) -> bool {
        match self.wire {
            Wire::Grpc => {
                matches!(self.code, 1 | 4 | 10 | 11 | 14 | 15) || self.code == 8 && self.advice.is_some()
            }
            Wire::Protobuf | Wire::Json => matches!(self.code, 429 | 502 | 503 | 504),
        }
    }
}

/// Connections to a server's OTLP ports, kept between requests.
pub(crate) struct Client {
    http: String,
    grpc: String,
    agent: ureq::Agent,
    runtime: tokio::runtime::Runtime,
    channel: Option<SendRequest<Bytes>>,
    /// Sent as a bearer token.
    pub(crate) key: Option<String>,
}

impl Client {
    pub(crate) fn new(server: &Server) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .max_idle_age(Duration::from_secs(2));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self {
            http: server.otlp_http(),
            grpc: server.otlp_grpc(),
            agent: ureq::Agent::new_with_config(config.build()),
            runtime: runtime.unwrap(),
            channel: None,
            key: None,
        }
    }

    /// Headers of HTTP and of gRPC that say how a body is encoded and who sends it.
    fn headers(&self, encoding: &str, encoding_header: &'static str) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if !encoding.is_empty() {
            headers.push((encoding_header, encoding.to_owned()));
        }
        if let Some(key) = &self.key {
            headers.push(("authorization", format!("Bearer {key}")));
        }
        headers
    }

    /// The next request opens a connection.
    pub(crate) fn forget_connections(&mut self) {
        self.agent = ureq::Agent::new_with_config(self.agent.config().clone());
        self.channel = None;
    }

    /// Sends an export request of traces; an error is a connection that broke before the answer.
    pub(crate) fn send(&mut self, wire: Wire, encoding: &str, body: &[u8]) -> Result<Answer, String> {
        let begun = Instant::now();
        let answer = match wire {
            Wire::Grpc => self.send_grpc(encoding, body),
            Wire::Protobuf | Wire::Json => self.send_http(wire, encoding, body),
        };
        answer.map(|answer| Answer { took: begun.elapsed(), ..answer })
    }

    fn send_http(&self, wire: Wire, encoding: &str, body: &[u8]) -> Result<Answer, String> {
        let media = if wire == Wire::Json { "application/json" } else { "application/x-protobuf" };
        let mut request = self.agent.post(&format!("{}/v1/traces", self.http)).content_type(media);
        for (name, value) in self.headers(encoding, "content-encoding") {
            request = request.header(name, value);
        }
        let mut answer = request.send(body).map_err(|error| error.to_string())?;
        let header = |name: &str| answer.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
        let content_type = header("content-type").unwrap_or_default();
        let advice = header("retry-after").map(|s| Duration::from_secs(s.parse().unwrap()));
        let code = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(64 << 20).read_to_vec();
        let body = body.map_err(|error| error.to_string())?;
        let (message, rejected_spans) = match wire {
            Wire::Json => read_json(&body),
            _ if code == 200 => read_success(&body),
            _ => (Status::decode(&body[..]).unwrap().message, 0),
        };
        Ok(Answer { wire, code, content_type, message, rejected_spans, advice, took: Duration::ZERO })
    }

    fn send_grpc(&mut self, encoding: &str, message: &[u8]) -> Result<Answer, String> {
        let mut frame = BytesMut::with_capacity(message.len() + 5);
        frame.put_u8(u8::from(!encoding.is_empty()));
        frame.put_u32(u32::try_from(message.len()).unwrap());
        frame.put_slice(message);
        let (frame, channel) = (frame.freeze(), self.channel.take());
        let headers = self.headers(encoding, "grpc-encoding");
        let answer = self.runtime.block_on(async {
            let channel = match channel {
                Some(channel) => channel,
                None => connect(&self.grpc).await?,
            };
            let mut channel = channel.ready().await.map_err(|error| error.to_string())?;
            let answer = tokio::time::timeout(PATIENCE, call(&mut channel, &self.grpc, &headers, frame));
            let answer = answer.await.map_err(|_| "no answer".to_owned())??;
            Ok::<_, String>((channel, answer))
        });
        let (channel, answer) = answer?;
        self.channel = Some(channel);
        Ok(answer)
    }
}

async fn connect(url: &str) -> Result<SendRequest<Bytes>, String> {
    let address = url.trim_start_matches("http://");
    let stream = tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (channel, connection) = h2::client::handshake(stream).await.map_err(|error| error.to_string())?;
    drop(tokio::spawn(connection));
    Ok(channel)
}

/// One unary call. Sending ends when the server has answered, as in any client.
async fn call(
    channel: &mut SendRequest<Bytes>,
    url: &str,
    headers: &[(&str, String)],
    mut frame: Bytes,
) -> Result<Answer, String> {
    let mut request =
        http::Request::post(format!("{url}/opentelemetry.proto.collector.trace.v1.TraceService/Export"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let said = |error: h2::Error| error.to_string();
    let (answer, mut body) = channel.send_request(request.body(()).unwrap(), false).map_err(said)?;
    let sending = async {
        while !frame.is_empty() {
            body.reserve_capacity(frame.len());
            let Some(Ok(room)) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else { return };
            let last = room >= frame.len();
            if body.send_data(frame.split_to(room.min(frame.len())), last).is_err() {
                return;
            }
        }
    };
    let (answer, ()) = tokio::join!(answer, sending);
    let (head, mut stream) = answer.map_err(said)?.into_parts();
    let mut message = BytesMut::new();
    while let Some(chunk) = stream.data().await {
        let chunk = chunk.map_err(said)?;
        stream.flow_control().release_capacity(chunk.len()).map_err(said)?;
        message.extend_from_slice(&chunk);
    }
    let trailers = if head.headers.contains_key("grpc-status") {
        head.headers.clone()
    } else {
        stream.trailers().await.map_err(said)?.ok_or("no trailers")?
    };
    let text = |name: &str| trailers.get(name).map(|v| v.to_str().unwrap().to_owned());
    let code = text("grpc-status").ok_or("no grpc-status")?.parse().unwrap();
    let (mut said, mut rejected_spans) = (text("grpc-message").unwrap_or_default(), 0);
    if code == 0 {
        (said, rejected_spans) = read_success(&message[5..]);
    }
    let content_type = head.headers.get("content-type").map(|v| v.to_str().unwrap().to_owned());
    Ok(Answer {
        wire: Wire::Grpc,
        code,
        content_type: content_type.unwrap_or_default(),
        message: said,
        rejected_spans,
        advice: text("grpc-status-details-bin").and_then(|details| retry_delay(&details)),
        took: Duration::ZERO,
    })
}

fn read_success(body: &[u8]) -> (String, i64) {
    let partial = ExportTraceServiceResponse::decode(body).unwrap().partial_success.unwrap_or_default();
    (partial.error_message, partial.rejected_spans)
}

fn read_json(body: &[u8]) -> (String, i64) {
    let body: Value = serde_json::from_slice(body).unwrap();
    let partial = &body["partialSuccess"];
    let message = partial["errorMessage"].as_str().or(body["message"].as_str());
    let rejected = partial["rejectedSpans"].as_str().map(|n| n.parse().unwrap());
    (message.unwrap_or_default().to_owned(), rejected.unwrap_or_default())
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Detail>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Detail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(message, optional, tag = "2")]
    value: Option<RetryInfo>,
}

/// `google.rpc.RetryInfo`; the bytes of an `Any` are written as a message is.
#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

fn retry_delay(details: &str) -> Option<Duration> {
    let bytes =
        base64::engine::general_purpose::STANDARD_NO_PAD.decode(details.trim_end_matches('=')).unwrap();
    let details = Status::decode(&bytes[..]).unwrap().details;
    let info = details.into_iter().find(|d| d.type_url == "type.googleapis.com/google.rpc.RetryInfo")?;
    let delay = info.value?.retry_delay?;
    Some(Duration::new(u64::try_from(delay.seconds).ok()?, u32::try_from(delay.nanos).ok()?))
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
