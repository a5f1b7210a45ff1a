//! Words that went and came, in lines of a terminal.

use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use super::super::text::{WIDTH, clean, cut};

pub(super) const DELETE: &str = "delete";
pub(super) const INSERT: &str = "insert";

/// Blanks before words.
const INDENT: usize = 6;
/// Characters that are shown of what stays the same beside a change.
const BESIDE: usize = 40;
/// Lines that are shown of one change.
const LINES_MAX: usize = 12;
/// A longer word may be cut by the end of a line.
const WORD_MAX: usize = 24;

/// Whether colours tell what went and came, or signs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    colour: bool,
}

impl Paint {
    /// Colours on a terminal, unless `NO_COLOR` is set.
    pub(super) fn of_terminal() -> Self {
        let set = |name: &str| std::env::var_os(name).unwrap_or_default();
        Self { colour: io::stdout().is_terminal() && set("NO_COLOR").is_empty() && set("TERM") != "dumb" }
    }

    #[cfg(test)]
    pub(super) fn new(colour: bool) -> Self {
        Self { colour }
    }

    /// A line that begins with `-` or `+`, in its colour.
    pub(super) fn line(self, line: &str) -> String {
        match line.get(..2) {
            Some("- ") => self.text(DELETE, line),
            Some("+ ") => self.text(INSERT, line),
            _ => line.to_owned(),
        }
    }

    fn text(self, op: &str, text: &str) -> String {
        match op {
            DELETE if self.colour => format!("\u{1b}[31m{text}\u{1b}[0m"),
            INSERT if self.colour => format!("\u{1b}[32m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }

    /// What stands around words that went or came.
    fn signs(self, op: &str) -> (&'static str, &'static str) {
        match op {
            DELETE if !self.colour => ("[-", "-]"),
            INSERT if !self.colour => ("{+", "+}"),
            _ => ("", ""),
        }
    }
}

/// A piece of a line that is not cut.
struct Word {
    op: &'static str,
    text: String,
    /// False when it stands right behind the one before.
    blank: bool,
}

/// Shows the pieces of a text: what differs, with some words around it.
pub(super) fn show(pieces: &[Value], paint: Paint, out: &mut dyn Write) -> io::Result<()> {
    let text = |piece: &Value| clean(piece.get("text").and_then(Value::as_str).unwrap_or_default());
    let mut words = Vec::new();
    let mut blank = false;
    for (n, piece) in pieces.iter().enumerate() {
        let op = match piece.get("op").and_then(Value::as_str) {
            Some(DELETE) => DELETE,
            Some(INSERT) => INSERT,
            _ => "",
        };
        let text =
            if op.is_empty() { shortened(&text(piece), n == 0, n + 1 == pieces.len()) } else { text(piece) };
        let (open, close) = paint.signs(op);
        let inner = text.trim_matches(' ');
        blank |= text.starts_with(' ');
        if !inner.is_empty() || !op.is_empty() {
            // A blank that came or went is shown between the signs.
            let shown = if inner.is_empty() { " " } else { inner };
            split(&format!("{open}{shown}{close}"), op, blank, &mut words);
            blank = false;
        }
        blank |= text.ends_with(' ');
    }
    write(&words, paint, out)
}

/// Shows a value that went or came as a whole.
pub(super) fn show_whole(op: &str, text: &str, paint: Paint, out: &mut dyn Write) -> io::Result<()> {
    let sign = if op == DELETE { '-' } else { '+' };
    let line = cut(&format!("{sign} {text}"), WIDTH - INDENT);
    writeln!(out, "{:INDENT$}{}", "", paint.text(op, &line))
}

/// The end of what stands before a change, and the beginning of what stands behind it.
fn shortened(text: &str, first: bool, last: bool) -> String {
    let length = text.chars().count();
    let head: String = text.chars().take(BESIDE).collect();
    let tail: String = text.chars().skip(length.saturating_sub(BESIDE)).collect();
    match (first, last) {
        _ if length <= 2 * BESIDE => text.to_owned(),
        (true, _) => format!("… {tail}"),
        (_, true) => format!("{head} …"),
        _ => format!("{head} … {tail}"),
    }
}

fn split(text: &str, op: &'static str, mut blank: bool, words: &mut Vec<Word>) {
    for word in text.split(' ') {
        let mut rest = word;
        loop {
            let end = rest.char_indices().nth(WORD_MAX).map_or(rest.len(), |(at, _)| at);
            let (chunk, more) = rest.split_at_checked(end).unwrap_or((rest, ""));
            words.push(Word { op, text: chunk.to_owned(), blank });
            blank = false;
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        blank = true;
    }
}

fn write(words: &[Word], paint: Paint, out: &mut dyn Write) -> io::Result<()> {
    let (mut column, mut lines) = (INDENT, 1);
    write!(out, "{:INDENT$}", "")?;
    for (n, word) in words.iter().enumerate() {
        let length = word.text.chars().count();
        let blank = word.blank && column > INDENT;
        if column + usize::from(blank) + length > WIDTH {
            lines += 1;
            if lines > LINES_MAX {
                let left = words.len() - n;
                return writeln!(out, "\n{:INDENT$}… {left} words more; --json has all", "");
            }
            write!(out, "\n{:INDENT$}", "")?;
            column = INDENT;
        } else if blank {
            write!(out, " ")?;
            column += 1;
        }
        write!(out, "{}", paint.text(word.op, &word.text))?;
        column += length;
    }
    writeln!(out)
}
