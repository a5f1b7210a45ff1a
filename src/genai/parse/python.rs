//! Python literals: several exporters write `str()` of a dict where JSON belongs.

use serde_json::{Map, Number, Value};

/// Values nested deeper than this are not read.
const DEPTH_MAX: usize = 32;

/// The value of a dict or list literal; `None` for all other text, and for literals that name objects.
pub(in crate::genai) fn literal(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['{', '[', '(']) {
        return None;
    }
    let mut reader = Reader { rest: text };
    let value = reader.value(0)?;
    reader.rest.trim().is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.blanks();
        match self.rest.chars().next()? {
            '{' => self.dict(depth),
            '[' => self.list('[', ']', depth),
            '(' => self.list('(', ')', depth),
            '\'' | '"' => self.string().map(Value::String),
            _ => self.word(),
        }
    }

    fn dict(&mut self, depth: usize) -> Option<Value> {
        self.take('{')?;
        let mut members = Map::new();
        loop {
            self.blanks();
            if self.take('}').is_some() {
                return Some(Value::Object(members));
            }
            let key = match self.value(depth + 1)? {
                Value::String(key) => key,
                other => other.to_string(),
            };
            self.blanks();
            self.take(':')?;
            let _ = members.insert(key, self.value(depth + 1)?);
            self.blanks();
            if self.take(',').is_none() && !self.rest.starts_with('}') {
                return None;
            }
        }
    }

    fn list(&mut self, open: char, close: char, depth: usize) -> Option<Value> {
        self.take(open)?;
        let mut items = Vec::new();
        loop {
            self.blanks();
            if self.take(close).is_some() {
                return Some(Value::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.blanks();
            if self.take(',').is_none() && !self.rest.starts_with(close) {
                return None;
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let mut chars = self.rest.char_indices();
        let (_, quote) = chars.next()?;
        let mut text = String::new();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => {
                    let (_, escaped) = chars.next()?;
                    let digits = match escaped {
                        'x' => 2,
                        'u' => 4,
                        'U' => 8,
                        _ => 0,
                    };
                    let number: String = (0..digits).map_while(|_| chars.next()).map(|(_, c)| c).collect();
                    match escaped {
                        _ if digits > 0 => {
                            text.push(char::from_u32(u32::from_str_radix(&number, 16).ok()?)?);
                        }
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'r' => text.push('\r'),
                        '\\' | '\'' | '"' => text.push(escaped),
                        other => text.extend(['\\', other]),
                    }
                }
                c if c == quote => {
                    self.rest = self.rest.get(at + c.len_utf8()..)?;
                    return Some(text);
                }
                c => text.push(c),
            }
        }
        None
    }

    fn word(&mut self) -> Option<Value> {
        let end = self.rest.find([',', ':', '}', ']', ')', ' ', '\n']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        Some(match word {
            "None" => Value::Null,
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            _ => match word.parse::<i64>() {
                Ok(number) => Value::from(number),
                Err(_) => Value::Number(Number::from_f64(word.parse().ok()?)?),
            },
        })
    }

    fn take(&mut self, c: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(c)?;
        Some(())
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_dict_is_left_as_text() {
        let text =
            r#"{'city': 'Paris', "q": "it's", 'n': [1, -2.5, None, True], 't': ('a',), 'e': 'a\'b\n\u00e9'}"#;
        let read =
            json!({"city": "Paris", "q": "it's", "n": [1, -2.5, null, true], "t": ["a"], "e": "a'b\né"});
        assert_eq!(literal(text), Some(read));
        assert_eq!(literal("{}"), Some(json!({})));
    }

    #[test]
    fn what_names_an_object_or_is_cut_is_half_read() {
        for text in [
            "{'a': <object at 0x7f>}",
            "{'a': 'b",
            "{'a'",
            "[1 2]",
            "{'a': 1} tail",
            "[TOOL INPUT: Bash]",
            "{",
        ] {
            assert_eq!(literal(text), None, "{text}");
        }
        assert_eq!(literal(&"[".repeat(100_000)), None);
    }
}
