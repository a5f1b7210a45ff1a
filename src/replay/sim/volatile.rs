//! What differs between two executions of the same agent and means nothing: ids, times, temporary paths, ports.
//!
//! Each is replaced by a word that names its type, so that texts that differ in nothing else are equal.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

/// Patterns in the order of their precedence; each group's name is the word that stands in its place.
const ANYWHERE: &str = concat!(
    r"(?P<uuid>\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b)",
    r"|(?P<ulid>\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b)",
    r"|(?P<time>\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)",
    r"|(?P<id>\b(?:call|toolu|tooluse|msg|resp|fc|rs|run|chatcmpl|req|gen)[_-][0-9A-Za-z]{8,}\b)",
    r"|(?P<hex>\b(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{24}|[0-9a-f]{16})\b)",
    r"|(?P<address>\b0x[0-9a-fA-F]{6,16}\b)",
    r"|(?P<path>(?:/private)?(?:/tmp|/var/tmp|/var/folders)/[^\s\x22',;)\]}]+)",
    r"|(?P<port>\b(?:localhost|127\.0\.0\.1|\[::1\]):\d{2,5}\b)",
    r"|(?P<epoch>\b1[5-9]\d{8}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?\b)",
);

/// Dates alone. In instructions they tell the day of the execution; elsewhere they are what was asked.
const IN_INSTRUCTIONS: &str = concat!(
    r"(?P<date>\b\d{4}-\d{2}-\d{2}\b",
    r"|\b(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day,? )?",
    r"(?:(?:January|February|March|April|May|June|July|August|September|October|November|December) \d{1,2},? \d{4}",
    r"|\d{1,2} (?:January|February|March|April|May|June|July|August|September|October|November|December) \d{4})\b)",
);

// The patterns are constants, and a test builds them: without one, nothing is replaced.
static EVERYWHERE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(ANYWHERE).ok());
static INSTRUCTIONS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!("{ANYWHERE}|{IN_INSTRUCTIONS}")).ok());

/// `text` with what is volatile replaced. `instructions` says that it is a system text.
pub(super) fn without(text: &str, instructions: bool) -> Cow<'_, str> {
    let pattern = if instructions { &INSTRUCTIONS } else { &EVERYWHERE };
    match &**pattern {
        // Every pattern has a digit, or a path: most texts have neither.
        Some(pattern) if text.bytes().any(|b| b.is_ascii_digit() || b == b'/') => {
            pattern.replace_all(text, |found: &Captures<'_>| {
                let names = pattern.capture_names().flatten();
                let name = names.into_iter().find(|name| found.name(name).is_some());
                format!("<{}>", name.unwrap_or_default())
            })
        }
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_or_a_time_makes_two_texts_differ() {
        for (text, expected) in [
            ("id 2f1c7c8e-9b0a-4d55-8a53-0d5b7a9f1c22.", "id <uuid>."),
            ("at 2026-11-30T02:00:00.123Z, and 2026-11-30 02:00", "at <time>, and <time>"),
            ("call_bd7ac76c6f7fc98102 toolu_01ABCDEFGH", "<id> <id>"),
            ("trace 4bf92f3577b34da6a3ce929d0e0e4736", "trace <hex>"),
            ("see /tmp/tmp8x_1/out.txt now", "see <path> now"),
            ("http://127.0.0.1:31875/x", "http://<port>/x"),
            ("now 1764468000 or 1764468000123", "now <epoch> or <epoch>"),
            ("<object at 0x7f3a2b4c5d60>", "<object at <address>>"),
            ("01J9ZQ4Y6T8B3N5M7K2H1G0FED", "<ulid>"),
        ] {
            assert_eq!(without(text, false), expected);
        }
    }

    #[test]
    fn what_was_asked_is_taken_for_volatile() {
        for text in [
            "weather on 2026-12-01",
            "order 4711",
            "top 5 of 1200",
            "ratio 0.91",
            "face cafe",
            "/usr/bin/x 1",
        ] {
            assert_eq!(without(text, false), text);
        }
        assert_eq!(
            without("Today is 2026-12-01, or Monday, November 30, 2026.", true),
            "Today is <date>, or <date>."
        );
    }
}
