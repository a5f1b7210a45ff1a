//! Which `Host` and `Origin` a server on loopback takes: a page of another site must not read it through the
//! browser of its user (DNS rebinding).

use axum::{
    extract::Request,
    http::{HeaderMap, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::problem::{Code, Problem};

/// Refuses a request that names another machine.
pub async fn refuse_foreign(request: Request, next: Next) -> Response {
    if is_local(request.uri(), request.headers()) {
        next.run(request).await
    } else {
        Problem::new(Code::HostNotAllowed).into_response()
    }
}

/// True when `Host` (or the authority of an HTTP/2 request) and `Origin`, where given, name this machine.
pub fn is_local(uri: &Uri, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|v: &axum::http::HeaderValue| v.to_str().unwrap_or_default());
    let host = text(header::HOST).or_else(|| uri.authority().map(|a| a.as_str()));
    let origin = text(header::ORIGIN);
    host.is_some_and(is_loopback_name)
        && origin.is_none_or(|origin| {
            let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            authority.is_some_and(is_loopback_name)
        })
}

fn is_loopback_name(authority: &str) -> bool {
    let has_port =
        |rest: &str| rest.is_empty() || rest.strip_prefix(':').is_some_and(|p| p.parse::<u16>().is_ok());
    let names = ["localhost", "127.0.0.1", "[::1]"];
    names.iter().any(|name| authority.strip_prefix(name).is_some_and(has_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let _ = headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            let _ = headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_page_of_another_site_reads_the_records() {
        let uri = Uri::from_static("/v1/runs");
        for (host, origin) in [
            ("evil.example", None),
            ("localhost.evil.example", None),
            ("127.0.0.1.evil.example:4319", None),
            ("localhost:4319", Some("http://evil.example")),
            ("localhost:4319", Some("null")),
            ("localhost:4319@evil.example", None),
        ] {
            assert!(!is_local(&uri, &headers(host, origin)), "{host} {origin:?}");
        }
        assert!(!is_local(&uri, &HeaderMap::new()));
        for (host, origin) in [
            ("localhost:4319", None),
            ("127.0.0.1", Some("http://localhost:3000")),
            ("[::1]:4319", Some("https://[::1]:4319")),
        ] {
            assert!(is_local(&uri, &headers(host, origin)), "{host} {origin:?}");
        }
    }
}
