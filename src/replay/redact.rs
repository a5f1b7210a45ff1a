//! Masks what must not leave with a fixture: secrets and personal data that are known by their form.
//!
//! The same rules run over a live call before it is compared with a redacted record, so that both sides stay equal. A
//! record names the rule set it went through; another set is another name.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};
use serde_json::Value;

use crate::genai::message::Part;

/// The name of these rules, with their version.
pub const RULE_SET: &str = "builtin-1";

/// Each group's name tells what was masked. In the order of their precedence.
const PATTERNS: &str = concat!(
    r"(?P<private_key>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?-----END [A-Z ]{0,30}PRIVATE KEY-----)",
    r"|(?P<jwt>\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})",
    r"|(?P<token>\b(?:sk|pk|rk)[-_](?:live_|test_|ant-|proj-|or-)?[A-Za-z0-9_-]{16,}",
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{22,}",
    r"|\bxox[abeprs]-[A-Za-z0-9-]{10,}|\bAIza[0-9A-Za-z_-]{35}|\bya29\.[0-9A-Za-z_-]{20,}",
    r"|\bglpat-[0-9A-Za-z_-]{20,}|\bhf_[A-Za-z0-9]{30,}|\bnpm_[A-Za-z0-9]{36}\b",
    r"|(?i:\bbearer\s+)[A-Za-z0-9._~+/-]{16,}=*|://[^/\s:@]{1,64}:[^/\s@]{1,128}@",
    r"|(?i:\b(?:password|passwd|secret|api[_-]?key|access[_-]?token)\b[\x22']?\s*[:=]\s*[\x22']?)[^\s\x22',;}]{6,})",
    r"|(?P<email>\b[\w.%+-]+@[\w-]+(?:\.[\w-]+)*\.\w\w+)",
    r"|(?P<iban>\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b)",
    r"|(?P<card>\b\d(?:[ -]?\d){12,18}\b)",
    r"|(?P<phone>\+\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){2,5}\b)",
    r"|(?P<ip>\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b)",
);

// The pattern is a constant, and a test builds it.
static RULES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PATTERNS).ok());

/// `text`, with what the rules find replaced by what it was: `<redacted:email>`.
pub fn text(text: &str) -> Cow<'_, str> {
    // Without rules nothing may leave.
    let Some(rules) = &*RULES else { return Cow::Owned("<redacted>".to_owned()) };
    rules.replace_all(text, |found: &Captures<'_>| {
        let whole = found.get(0).map_or("", |m| m.as_str());
        let names = rules.capture_names().flatten();
        let name = names.into_iter().find(|name| found.name(name).is_some()).unwrap_or_default();
        let is_real = match name {
            "card" => is_card(whole),
            "iban" => is_iban(whole),
            "ip" => is_foreign_ip(whole),
            _ => true,
        };
        if is_real { format!("<redacted:{name}>") } else { whole.to_owned() }
    })
}

/// Every text in `value`, keys of objects included.
pub fn value(value: &mut Value) {
    match value {
        Value::String(whole) => {
            if let Cow::Owned(masked) = text(whole) {
                *whole = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(self::value),
        Value::Object(members) => {
            members.values_mut().for_each(self::value);
            if members.keys().any(|key| matches!(text(key), Cow::Owned(_))) {
                let all = std::mem::take(members).into_iter();
                *members = all.map(|(key, value)| (text(&key).into_owned(), value)).collect();
            }
        }
        _ => {}
    }
}

/// What a part says.
pub fn part(part: &mut Part) {
    let mask = |content: &mut Option<String>| {
        if let Some(whole) = content
            && let Cow::Owned(masked) = text(whole)
        {
            *whole = masked;
        }
    };
    match part {
        Part::Text { content, .. } | Part::Reasoning { content, .. } => mask(content),
        Part::ToolCall { arguments: inner, .. } | Part::ToolCallResponse { response: inner, .. } => {
            inner.iter_mut().for_each(value);
        }
        Part::Other(members) => members.values_mut().for_each(value),
    }
}

/// Luhn's check.
fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(n, digit)| if n % 2 == 1 { digit * 2 - if *digit > 4 { 9 } else { 0 } } else { *digit })
        .sum();
    sum.is_multiple_of(10) && digits.iter().any(|digit| *digit != 0)
}

/// The check of ISO 13616: the number, its head moved to the end, is 1 modulo 97.
fn is_iban(text: &str) -> bool {
    let plain: Vec<char> = text.chars().filter(|c| *c != ' ').collect();
    let (Some(head), Some(tail)) = (plain.get(..4), plain.get(4..)) else { return false };
    let rest = tail.iter().chain(head).try_fold(0_u32, |rest, c| {
        let number = c.to_digit(36)?;
        Some((if number > 9 { rest * 100 + number } else { rest * 10 + number }) % 97)
    });
    rest == Some(1)
}

fn is_foreign_ip(text: &str) -> bool {
    text.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_leaves_with_a_fixture() {
        for (given, expected) in [
            ("mail a.b+c@example.org now", "mail <redacted:email> now"),
            ("j\u{f6}rg@b\u{fc}cher.example", "<redacted:email>"),
            ("postgres://admin:hunter2@db/x", "postgres<redacted:token>db/x"),
            ("password: hunter22", "<redacted:token>"),
            ("key sk-proj-abcdEFGH1234567890xyz.", "key <redacted:token>."),
            ("AKIAIOSFODNN7EXAMPLE", "<redacted:token>"),
            ("Authorization: Bearer abcdefghij0123456789", "Authorization: <redacted:token>"),
            ("4111 1111 1111 1111", "<redacted:card>"),
            ("DE89 3704 0044 0532 0130 00", "<redacted:iban>"),
            ("call +49 30 1234567", "call <redacted:phone>"),
            ("from 203.0.113.9", "from <redacted:ip>"),
            ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "<redacted:private_key>"),
            ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4", "<redacted:jwt>"),
        ] {
            assert_eq!(text(given), expected);
        }
    }

    #[test]
    fn what_is_no_secret_is_masked() {
        for given in [
            "4111 1111 1111 1112",
            "order 1234567890123",
            "127.0.0.1:80",
            "version 1.2.3",
            "a@b",
            "GB00 1234 5678 9012",
        ] {
            assert_eq!(text(given), given);
        }
        let mut nested = json!({"a@example.org": [{"x": "a@example.org"}, 1]});
        value(&mut nested);
        assert_eq!(nested, json!({"<redacted:email>": [{"x": "<redacted:email>"}, 1]}));
    }
}
