//! Names of values: equal names are equal values, whatever the order of members and the way numbers are written.

use serde_json::Value;

use super::json::whole;

/// BLAKE3 over a sequence of values.
#[derive(Debug, Default)]
pub(super) struct Digest(blake3::Hasher);

impl Digest {
    /// The name of one value.
    pub(super) fn of(value: &Value) -> u128 {
        let mut digest = Self::default();
        digest.value(value);
        digest.finish()
    }

    /// Adds a text; where it ends counts.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.tag(b's').number(text.len() as u128);
        let _ = self.0.update(text.as_bytes());
        self
    }

    /// Adds texts, one after another.
    pub(super) fn texts(&mut self, texts: &[String]) -> &mut Self {
        texts.iter().fold(self.number(texts.len() as u128), |digest, text| digest.text(text))
    }

    /// Adds numbers, one after another.
    pub(super) fn numbers(&mut self, numbers: &[u128]) -> &mut Self {
        numbers.iter().fold(self.number(numbers.len() as u128), |digest, number| digest.number(*number))
    }

    /// Adds a number, such as another name.
    pub(super) fn number(&mut self, number: u128) -> &mut Self {
        let _ = self.0.update(&number.to_le_bytes());
        self
    }

    /// Adds a value.
    pub(super) fn value(&mut self, value: &Value) -> &mut Self {
        match value {
            Value::Null => self.tag(b'z'),
            Value::Bool(bool) => self.tag(if *bool { b't' } else { b'f' }),
            Value::Number(number) => match whole(number) {
                Some(whole) => self.tag(b'i').number(whole.cast_unsigned()),
                None => self.tag(b'n').text(&number.to_string()),
            },
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.tag(b'a').number(items.len() as u128);
                items.iter().fold(self, Self::value)
            }
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_unstable_by_key(|(key, _)| *key);
                self.tag(b'o').number(members.len() as u128);
                members.into_iter().fold(self, |digest, (key, value)| digest.text(key).value(value))
            }
        }
    }

    /// The name of what was added.
    pub(super) fn finish(&self) -> u128 {
        let hash = self.0.finalize();
        hash.as_bytes().first_chunk().copied().map(u128::from_le_bytes).unwrap_or_default()
    }

    fn tag(&mut self, tag: u8) -> &mut Self {
        let _ = self.0.update(&[tag]);
        self
    }
}
