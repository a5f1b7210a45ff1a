//! The option reference: every option with its default and what it does, generated from the settings themselves.

use std::fmt::Write as _;

use serde_json::Value;

use super::Config;

/// The sources of the sections; their doc comments are the reference, so that it cannot drift from the code.
const SECTIONS: &[(&str, &str, &str)] = &[
    ("", "Config", include_str!("mod.rs")),
    ("listen", "Listen", include_str!("mod.rs")),
    ("access", "Settings", include_str!("access.rs")),
    ("api", "Settings", include_str!("api.rs")),
    ("otlp", "Settings", include_str!("otlp.rs")),
    ("wal", "Settings", include_str!("wal.rs")),
    ("sql", "Settings", include_str!("sql.rs")),
    ("simulation", "Settings", include_str!("simulation.rs")),
    ("store", "Settings", include_str!("store.rs")),
];

/// A configuration file that holds all defaults, each option under what it does.
pub fn reference() -> String {
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    let mut text = String::from("# Every option of spanreel, with its default.\n");
    for (section, of, source) in SECTIONS {
        let indent = if section.is_empty() { "" } else { "  " };
        let values = if section.is_empty() { Some(&defaults) } else { defaults.get(*section) };
        let options = options(source, of);
        if !section.is_empty() && !options.is_empty() {
            let _ = writeln!(text, "\n{section}:");
        }
        for (name, docs) in options {
            let value = values.and_then(|v| v.get(&name)).unwrap_or(&Value::Null);
            if value.is_object() {
                continue;
            }
            for line in docs {
                let _ = writeln!(text, "{indent}# {line}");
            }
            let _ = writeln!(text, "{indent}{name}: {value}");
        }
    }
    text
}

/// The public fields of the struct `of`, with the lines of their doc comments.
fn options(source: &str, of: &str) -> Vec<(String, Vec<String>)> {
    let start = format!("pub struct {of} {{");
    let body = source.lines().skip_while(|line| *line != start).skip(1).take_while(|line| *line != "}");
    let (mut all, mut docs) = (Vec::new(), Vec::new());
    for line in body.map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.trim().to_owned());
        } else if let Some((name, _)) = line.strip_prefix("pub ").and_then(|field| field.split_once(':')) {
            all.push((name.to_owned(), std::mem::take(&mut docs)));
        }
    }
    all
}
