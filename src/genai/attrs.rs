//! Typed, tolerant access to the attributes of one record.

use std::{cmp::Ordering, collections::BTreeMap};

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use serde_json::{Map, Number, Value};

/// No sender limits its values to less.
const LENGTH_LIMIT_MIN: usize = 128;
/// Values nested deeper than this are read as null.
const DEPTH_MAX: usize = 64;

/// The attributes of a span, an event or a log record, by name.
#[derive(Clone, Debug, Default)]
pub struct Attrs {
    values: BTreeMap<String, Value>,
}

impl Attrs {
    /// Reads `attributes`. A repeated key becomes an array: some exporters write arrays that way.
    pub fn new(attributes: &[KeyValue]) -> Self {
        let mut values = BTreeMap::new();
        let mut repeated = BTreeMap::<&str, Vec<Value>>::new();
        for attribute in attributes {
            let value = attribute.value.as_ref().map_or(Value::Null, |v| to_json(v, 0));
            match values.get(&attribute.key) {
                None => {
                    let _ = values.insert(attribute.key.clone(), value);
                }
                Some(first) => {
                    let all = repeated.entry(&attribute.key).or_insert_with(|| vec![first.clone()]);
                    all.push(value);
                }
            }
        }
        for (key, mut all) in repeated {
            let same = all.iter().all(|v| Some(v) == all.first());
            let value = if same { all.swap_remove(0) } else { Value::Array(all) };
            let _ = values.insert(key.to_owned(), value);
        }
        Self { values }
    }

    /// The value of `key` when it says anything: not null, `""`, `[]` or `{}`, nor these as JSON text.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|v| is_meaningful(v))
    }

    /// The value of `key`, whatever it is.
    pub fn raw(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// True when `key` is there, whatever its value.
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// The first of `keys` that says anything.
    pub fn first(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().find_map(|k| self.get(k))
    }

    /// The first of `keys` that holds the arguments of a call: a tool without parameters is called with `{}`.
    pub fn arguments(&self, keys: &[&str]) -> Option<&Value> {
        let none = |v: &&Value| matches!(v, Value::Object(_) | Value::Array(_)) || v.as_str() == Some("{}");
        self.first(keys).or_else(|| keys.iter().find_map(|k| self.raw(k)).filter(none))
    }

    /// The first of `keys` that holds text; numbers are written out.
    pub fn text(&self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|k| match self.get(k)? {
            Value::String(s) => Some(s.trim().to_owned()).filter(|s| !s.is_empty()),
            Value::Number(n) => Some(n.to_string()),
            _ => None,
        })
    }

    /// The first of `keys` that holds a count; text and whole floating point numbers are taken.
    pub fn count(&self, keys: &[&str]) -> Option<u64> {
        keys.iter().find_map(|k| count(self.values.get(*k)?))
    }

    /// The first of `keys` that holds a finite number, or text that is one.
    pub fn float(&self, keys: &[&str]) -> Option<f64> {
        keys.iter().find_map(|k| match self.values.get(*k)? {
            Value::Number(n) => n.as_f64(),
            Value::String(s) => s.trim().parse().ok().filter(|f: &f64| f.is_finite()),
            _ => None,
        })
    }

    /// The first of `keys` that holds an integer, or text that is one.
    pub fn int(&self, keys: &[&str]) -> Option<i64> {
        keys.iter().find_map(|k| match self.values.get(*k)? {
            Value::String(s) => s.trim().parse().ok(),
            value => value.as_i64(),
        })
    }

    /// The first of `keys` that holds a boolean, or text that is one.
    pub fn flag(&self, keys: &[&str]) -> Option<bool> {
        keys.iter().find_map(|k| match self.values.get(*k)? {
            Value::Bool(b) => Some(*b),
            Value::String(s) => s.trim().to_ascii_lowercase().parse().ok(),
            _ => None,
        })
    }

    /// A list of words: an array, an array as JSON text, or words with commas between them.
    pub fn words(&self, keys: &[&str]) -> Vec<String> {
        let words = |items: &[Value]| items.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect();
        match self.first(keys) {
            Some(Value::Array(items)) => words(items),
            Some(Value::String(text)) => match serde_json::from_str(text) {
                Ok(Value::Array(items)) => words(&items),
                _ => text.split(',').map(|w| w.trim().trim_matches('"').to_owned()).collect(),
            },
            _ => Vec::new(),
        }
    }

    /// All attributes whose name starts with `prefix`, in order of name.
    pub fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.values
            .range(prefix.to_owned()..)
            .take_while(move |(k, _)| k.starts_with(prefix))
            .map(|(k, v)| (k.as_str(), v))
    }

    /// A copy in which every name that starts with one of `prefixes` starts with `prefix` instead, where that is free.
    pub fn renamed(&self, prefixes: &[&str], prefix: &str) -> Self {
        let mut values = self.values.clone();
        for from in prefixes {
            for (key, value) in self.with_prefix(from) {
                let renamed = format!("{prefix}{}", key.get(from.len()..).unwrap_or_default());
                let _ = values.entry(renamed).or_insert_with(|| value.clone());
            }
        }
        Self { values }
    }

    /// The length in characters at which the sender cut its values, where several end there and none goes on: a limit on
    /// the length of attributes leaves no mark in plain text.
    pub fn cut_length(&self) -> Option<usize> {
        let texts =
            self.values.values().filter_map(Value::as_str).filter(|text| text.len() >= LENGTH_LIMIT_MIN);
        let mut longest = (0, 0);
        for length in texts.map(|text| text.chars().count()) {
            longest = match length.cmp(&longest.0) {
                Ordering::Greater => (length, 1),
                Ordering::Equal => (length, longest.1 + 1),
                Ordering::Less => longest,
            };
        }
        (longest.1 > 1 && longest.0 >= LENGTH_LIMIT_MIN).then_some(longest.0)
    }

    /// True when any attribute's name starts with `prefix`.
    pub fn any_with_prefix(&self, prefix: &str) -> bool {
        self.with_prefix(prefix).next().is_some()
    }
}

/// `value` as JSON. Bytes become hexadecimal text; unset becomes null.
pub fn to_json(value: &AnyValue, depth: usize) -> Value {
    use any_value::Value as Any;
    if depth > DEPTH_MAX {
        return Value::Null;
    }
    match &value.value {
        Some(Any::StringValue(s)) => Value::String(s.clone()),
        Some(Any::BoolValue(b)) => Value::Bool(*b),
        Some(Any::IntValue(i)) => Value::from(*i),
        Some(Any::DoubleValue(d)) => Number::from_f64(*d).map_or(Value::Null, Value::Number),
        Some(Any::ArrayValue(a)) => a.values.iter().map(|v| to_json(v, depth + 1)).collect(),
        Some(Any::KvlistValue(list)) => {
            let member = |kv: &KeyValue| {
                (kv.key.clone(), kv.value.as_ref().map_or(Value::Null, |v| to_json(v, depth + 1)))
            };
            Value::Object(list.values.iter().map(member).collect::<Map<_, _>>())
        }
        Some(Any::BytesValue(b)) => Value::String(hex::encode(b)),
        _ => Value::Null,
    }
}

/// False for null, `""`, `[]`, `{}` and these as text.
pub fn is_meaningful(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(s) => !matches!(s.trim(), "" | "null" | "{}" | "[]" | "\"\"" | "None"),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}

/// A count in `value`: a whole number, or text that is one.
pub fn count(value: &Value) -> Option<u64> {
    match value {
        Value::String(s) => s.trim().trim_matches('"').parse().ok(),
        // A float holds a count only where it is whole; its text says so exactly.
        Value::Number(n) => n.as_u64().or_else(|| format!("{:.0}", n.as_f64()?).parse().ok()),
        _ => None,
    }
}
