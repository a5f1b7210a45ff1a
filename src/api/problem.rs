//! What goes wrong, as the API says it: one table of codes, one envelope.
//!
//! `{"error": {"code", "message", "message_i18n": {"en", "fr"}, "details", "trace_id"}}`

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{access, store};

/// A code of the API, with its status and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Code {
    InvalidParameter,
    InvalidBody,
    Unauthenticated,
    Forbidden,
    HostNotAllowed,
    NotFound,
    RunNotFound,
    StepNotFound,
    TraceNotFound,
    SimulationNotFound,
    PartialRun,
    TooManySimulations,
    MethodNotAllowed,
    BodyTooLarge,
    BodyTimeout,
    Unavailable,
    Internal,
    WithoutSql,
}

impl Code {
    /// Name, status, English, French: the status table of the API.
    fn row(self) -> (&'static str, StatusCode, &'static str, &'static str) {
        match self {
            Self::InvalidParameter => (
                "invalid_parameter",
                StatusCode::BAD_REQUEST,
                "A parameter of the request is not valid.",
                "Un paramètre de la requête n'est pas valide.",
            ),
            Self::InvalidBody => (
                "invalid_body",
                StatusCode::BAD_REQUEST,
                "The body of the request is not valid.",
                "Le corps de la requête n'est pas valide.",
            ),
            Self::Unauthenticated => (
                "unauthenticated",
                StatusCode::UNAUTHORIZED,
                "A valid key is needed.",
                "Une clé valide est nécessaire.",
            ),
            Self::Forbidden => (
                "forbidden",
                StatusCode::FORBIDDEN,
                "The role of the key does not allow this.",
                "Le rôle de la clé ne le permet pas.",
            ),
            Self::HostNotAllowed => (
                "host_not_allowed",
                StatusCode::FORBIDDEN,
                "Only requests to a loopback name are served here.",
                "Seules les requêtes vers un nom local sont servies ici.",
            ),
            Self::NotFound => ("not_found", StatusCode::NOT_FOUND, "No such path.", "Chemin inconnu."),
            Self::RunNotFound => {
                ("run_not_found", StatusCode::NOT_FOUND, "No such run.", "Exécution inconnue.")
            }
            Self::StepNotFound => {
                ("step_not_found", StatusCode::NOT_FOUND, "No such step.", "Étape inconnue.")
            }
            Self::TraceNotFound => {
                ("trace_not_found", StatusCode::NOT_FOUND, "No such trace.", "Trace inconnue.")
            }
            Self::SimulationNotFound => (
                "simulation_not_found",
                StatusCode::NOT_FOUND,
                "No such simulation; it may have ended.",
                "Simulation inconnue ; elle est peut-être terminée.",
            ),
            Self::PartialRun => (
                "partial_run",
                StatusCode::CONFLICT,
                "The record of the run is not complete.",
                "L'enregistrement de l'exécution n'est pas complet.",
            ),
            Self::TooManySimulations => (
                "too_many_simulations",
                StatusCode::TOO_MANY_REQUESTS,
                "Too many simulations are open.",
                "Trop de simulations sont ouvertes.",
            ),
            Self::MethodNotAllowed => (
                "method_not_allowed",
                StatusCode::METHOD_NOT_ALLOWED,
                "The path does not take this method.",
                "Ce chemin n'accepte pas cette méthode.",
            ),
            Self::BodyTooLarge => (
                "body_too_large",
                StatusCode::PAYLOAD_TOO_LARGE,
                "The body of the request is too large.",
                "Le corps de la requête est trop grand.",
            ),
            Self::BodyTimeout => (
                "body_timeout",
                StatusCode::REQUEST_TIMEOUT,
                "The body of the request did not arrive in time.",
                "Le corps de la requête n'est pas arrivé à temps.",
            ),
            Self::Unavailable => (
                "unavailable",
                StatusCode::SERVICE_UNAVAILABLE,
                "The server cannot take this now; try again.",
                "Le serveur ne peut pas traiter cette requête pour le moment ; réessayez.",
            ),
            Self::WithoutSql => (
                "without_sql",
                StatusCode::NOT_IMPLEMENTED,
                "This program was built without SQL; build it with its default features.",
                "Ce programme a été compilé sans SQL ; compilez-le avec ses options par défaut.",
            ),
            Self::Internal => (
                "internal",
                StatusCode::INTERNAL_SERVER_ERROR,
                "The server failed; its log says why.",
                "Le serveur a échoué ; son journal dit pourquoi.",
            ),
        }
    }
}

/// An answer that is not the one asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    code: Code,
    details: Value,
}

impl Problem {
    /// What went wrong.
    pub fn code(&self) -> Code {
        self.code
    }

    /// A problem without details.
    pub fn new(code: Code) -> Self {
        Self { code, details: json!({}) }
    }

    /// A problem that `reason` makes clearer, in English. Never content of a record.
    pub fn because(code: Code, reason: impl std::fmt::Display) -> Self {
        Self { code, details: json!({"reason": reason.to_string()}) }
    }

    /// A problem with details of its own. Never content of a record.
    pub fn with(code: Code, details: Value) -> Self {
        Self { code, details }
    }

    /// The envelope; `trace_id` is that of the caller's `traceparent`.
    fn envelope(&self, trace_id: Option<&str>) -> Value {
        let (code, _, en, fr) = self.code.row();
        json!({"error": {
            "code": code,
            "message": en,
            "message_i18n": {"en": en, "fr": fr},
            "details": self.details,
            "trace_id": trace_id,
        }})
    }
}

impl IntoResponse for Problem {
    /// The status, with the problem beside it; [`write_envelope`] writes the body.
    fn into_response(self) -> Response {
        let mut response = self.code.row().1.into_response();
        if self.code == Code::Unauthenticated {
            let _ =
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        let _ = response.extensions_mut().insert(self);
        response
    }
}

impl From<access::Error> for Problem {
    fn from(error: access::Error) -> Self {
        Self::because(Code::Unauthenticated, error)
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        if matches!(error, store::Error::Cursor) {
            return Self::because(Code::InvalidParameter, error);
        }
        tracing::error!(%error, "the store failed");
        Self::new(Code::Internal)
    }
}

/// The problem behind a refusal that the framework wrote itself, as text.
fn of_framework(response: &Response) -> Option<Problem> {
    let media = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let text = media.is_none_or(|media| media.starts_with(b"text/plain"));
    let code = match response.status() {
        StatusCode::BAD_REQUEST => Code::InvalidParameter,
        StatusCode::PAYLOAD_TOO_LARGE => Code::BodyTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE | StatusCode::UNPROCESSABLE_ENTITY => Code::InvalidBody,
        _ => return None,
    };
    text.then(|| Problem::new(code))
}

/// Writes the envelope of a [`Problem`] that a handler gave, with the trace id of the request.
pub async fn write_envelope(request: Request, next: Next) -> Response {
    let traceparent = request.headers().get("traceparent").and_then(|v| v.to_str().ok());
    let trace_id = traceparent.and_then(|v| v.split('-').nth(1)).map(str::to_owned);
    let trace_id = trace_id.filter(|t| t.len() == 32 && t.bytes().all(|b| b.is_ascii_hexdigit()));
    let mut response = next.run(request).await;
    let known = response.extensions_mut().remove::<Problem>();
    if let Some(problem) = known.or_else(|| of_framework(&response)) {
        *response.status_mut() = problem.code.row().1;
        *response.body_mut() = Body::from(problem.envelope(trace_id.as_deref()).to_string());
        let json = HeaderValue::from_static("application/json");
        let _ = response.headers_mut().insert(header::CONTENT_TYPE, json);
        let _ = response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    response
}
