//! Text for a terminal: tables that fit 80 columns, durations, and nothing that a span could steer the terminal with.

use std::io::{self, Write};

use serde_json::Value;

/// `text` on one line: control characters (escape sequences, line ends) and direction overrides become spaces.
pub(crate) fn clean(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if steers(c) { ' ' } else { c }).collect()
}

/// At most `width` characters of the cleaned text; a cut is shown.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let text = clean(text);
    if text.chars().count() <= width {
        return text;
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// A member as text: `-` when it is null or absent.
pub(crate) fn member(value: &Value, name: &str) -> String {
    match value.get(name) {
        None | Some(Value::Null) => "-".into(),
        Some(Value::String(text)) => clean(text),
        Some(other) => clean(&other.to_string()),
    }
}

/// Milliseconds as people read them: `912 ms`, `4.2 s`, `3 min 20 s`.
pub(crate) fn duration(milliseconds: Option<f64>) -> String {
    match milliseconds {
        None => "-".into(),
        Some(ms) if ms < 10.0 => format!("{ms:.1} ms"),
        Some(ms) if ms < 1000.0 => format!("{ms:.0} ms"),
        Some(ms) if ms < 60_000.0 => format!("{:.1} s", ms / 1000.0),
        Some(ms) => format!("{:.0} min {:.0} s", (ms / 60_000.0).floor(), (ms % 60_000.0) / 1000.0),
    }
}

/// A time of a document, to the minute: `11-30 02:00`.
pub(crate) fn minutes(time: &str) -> String {
    clean(time).replace('T', " ").chars().skip(5).take(11).collect()
}

/// The least that is shown of a last column.
const LAST_MIN: usize = 6;

/// Characters of a line of output.
pub(crate) const WIDTH: usize = 80;

/// `text` in lines of at most [`WIDTH`] characters, all but the first behind `indent` blanks. A longer word stays whole.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in clean(text).split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines
}

/// Writes `text` behind `label`, its lines broken at `width` and indented; long words are broken too.
pub(crate) fn block(out: &mut dyn Write, label: &str, text: &str, width: usize) -> io::Result<()> {
    const INDENT: usize = 3;
    let lead = format!("{:INDENT$}{}: ", "", clean(label));
    let mut column = lead.chars().count();
    write!(out, "{lead}")?;
    let hang = INDENT + 2;
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            write!(out, "\n{:hang$}", "")?;
            column = hang;
        }
        let line = clean(line);
        let mut first = true;
        for word in line.split(' ') {
            let blank = usize::from(!first);
            let length = word.chars().count();
            if !first && column + blank + length > width {
                write!(out, "\n{:hang$}", "")?;
                column = hang;
            } else if !first {
                write!(out, " ")?;
                column += 1;
            }
            first = false;
            for c in word.chars() {
                if column >= width.max(hang + 1) {
                    write!(out, "\n{:hang$}", "")?;
                    column = hang;
                }
                write!(out, "{c}")?;
                column += 1;
            }
        }
    }
    writeln!(out)
}

/// Characters of a line of the terminal; [`WIDTH`] where there is none.
pub(crate) fn width() -> usize {
    use io::IsTerminal;
    let stdout = io::stdout();
    let columns = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten();
    columns.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(WIDTH)
}

/// The least that is shown of a column of [`fitted`].
const CELL_MIN: usize = 6;

/// Writes rows under a head within `width`: the widest columns are cut. What has too many columns for that is written
/// row by row, a column a line.
pub(crate) fn fitted(
    out: &mut dyn Write,
    head: &[&str],
    rows: &[Vec<String>],
    width: usize,
) -> io::Result<()> {
    let mut wide: Vec<usize> = head.iter().map(|name| name.chars().count()).collect();
    for row in rows {
        for (wide, cell) in wide.iter_mut().zip(row) {
            *wide = (*wide).max(cell.chars().count());
        }
    }
    let room = width.saturating_sub(2 * head.len().saturating_sub(1));
    let sum = |most: usize| wide.iter().map(|wide| (*wide).min(most)).sum::<usize>();
    if sum(CELL_MIN) > room {
        return upright(out, head, rows, width);
    }
    // The greatest width to which the widest can be cut so that all fit.
    let most = (CELL_MIN..=room).rev().find(|most| sum(*most) <= room).unwrap_or(CELL_MIN);
    let head = head.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for row in std::iter::once(&head).chain(rows) {
        let cell = |(cell, wide): (&String, &usize)| {
            let wide = (*wide).min(most);
            format!("{:<wide$}", cut(cell, wide))
        };
        let line: Vec<String> = row.iter().zip(&wide).map(cell).collect();
        writeln!(out, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}

fn upright(out: &mut dyn Write, head: &[&str], rows: &[Vec<String>], width: usize) -> io::Result<()> {
    let names = head.iter().map(|name| name.chars().count()).max().unwrap_or_default().min(width / 2);
    for (number, row) in rows.iter().enumerate() {
        writeln!(out, "row {}", number + 1)?;
        for (name, cell) in head.iter().zip(row) {
            let line = format!("  {:<names$}  {cell}", cut(name, names));
            writeln!(out, "{}", cut(&line, width).trim_end())?;
        }
    }
    Ok(())
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Writes rows under a head, in columns as wide as they need, each at most its width in `widths`. The last column takes
/// what is left of the line, and is left out where that is too little.
pub(crate) fn table(
    out: &mut dyn Write,
    head: &[&str],
    widths: &[usize],
    rows: &[Vec<String>],
) -> io::Result<()> {
    let cells = |row: &[String]| -> Vec<String> {
        row.iter().zip(widths).map(|(cell, width)| cut(cell, *width)).collect()
    };
    let head: Vec<String> = head.iter().map(|h| (*h).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(&head).chain(rows).map(|row| cells(row)).collect();
    let mut wide = vec![0; widths.len()];
    for row in &rows {
        for (width, cell) in wide.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let (last, others) = wide.split_last().map_or((0, &[][..]), |(last, others)| (*last, others));
    let rest = WIDTH.saturating_sub(others.iter().map(|width| width + 2).sum());
    let columns = if rest >= last.min(LAST_MIN) { wide.len() } else { others.len() };
    for row in &rows {
        let cells = row.iter().zip(&wide).take(columns).enumerate();
        let line: Vec<String> = cells
            .map(
                |(n, (cell, width))| {
                    if n + 1 == wide.len() { cut(cell, rest) } else { format!("{cell:<width$}") }
                },
            )
            .collect();
        writeln!(out, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_steers_the_terminal() {
        let evil = "a\u{1b}[2J\nb\r\u{202e}c\u{9b}d";
        assert_eq!(clean(evil), "a [2J b  c d");
        assert_eq!(cut("abcdef", 4), "abc…");
    }

    #[test]
    fn a_table_is_wider_than_its_columns_allow() {
        let mut out = Vec::new();
        let rows = vec![vec!["x".repeat(50), "b".into()], vec!["y".into(), "c".into()]];
        table(&mut out, &["NAME", "N"], &[10, 5], &rows).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "NAME        N\nxxxxxxxxx…  b\ny           c\n");
    }

    /// Scenario: two wide columns and a narrow one; then more columns than the line has room for.
    /// Guarantee: no line is wider than the terminal, what is narrow stays whole, and every column shows.
    #[test]
    fn a_table_is_wider_than_the_terminal() {
        let print = |head: &[&str], rows: &[Vec<String>], width| {
            let mut out = Vec::new();
            fitted(&mut out, head, rows, width).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            text
        };
        let row = vec!["a".repeat(40), "7".into(), "b".repeat(60)];
        let text = print(&["first", "n", "second"], std::slice::from_ref(&row), 40);
        assert_eq!(text.lines().nth(1), Some(&*format!("{}…  7  {}…", "a".repeat(16), "b".repeat(16))));
        assert!(print(&["first", "n", "second"], &[row], 200).contains(&"b".repeat(60)));
        let names: Vec<String> = (0..30).map(|n| format!("column_{n}")).collect();
        let head: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = print(&head, &[vec!["x".repeat(100); 30]], 80);
        assert!(names.iter().all(|name| text.contains(name)) && text.starts_with("row 1"), "{text}");
    }

    /// Scenario: text of several lines, with a word longer than a line.
    /// Guarantee: every line fits, and lines stay lines.
    #[test]
    fn a_text_runs_out_of_its_lines() {
        let mut out = Vec::new();
        block(&mut out, "user", &format!("one two three four\n{}", "x".repeat(30)), 20).unwrap();
        let text = String::from_utf8(out).unwrap();
        let x = "x".repeat(15);
        assert_eq!(text, format!("   user: one two\n     three four\n     {x}\n     {x}\n"));
    }

    #[test]
    fn a_duration_is_unreadable() {
        let all: Vec<String> = [0.5, 912.4, 4200.0, 200_000.0].map(|ms| duration(Some(ms))).into();
        assert_eq!(all, ["0.5 ms", "912 ms", "4.2 s", "3 min 20 s"]);
    }
}
