//! Scalars of the proto3 JSON mapping.

use std::{fmt, marker::PhantomData};

use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};

/// An integer: a number, a decimal string, or either in a form like `1.0` and `1e3` when it is whole.
pub(super) struct Int<T>(pub(super) T);

/// A double: a number, or a string with a number, `NaN`, `Infinity`, `-Infinity`.
pub(super) struct Double(pub(super) f64);

/// An id in hex, either case. Any length is taken here; the scan rejects the span, not the request.
pub(super) struct Hex(pub(super) Vec<u8>);

/// Base64: standard or URL-safe, padded or not.
pub(super) struct Base64(pub(super) Vec<u8>);

impl<'de, T: TryFrom<i128>> Deserialize<'de> for Int<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole<T>(PhantomData<T>);
        impl<T: TryFrom<i128>> Visitor<'_> for Whole<T> {
            type Value = Int<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number in range, or a string that holds one")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Int<T>, E> {
                fit(value.into())
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Int<T>, E> {
                fit(value.into())
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Int<T>, E> {
                whole(value)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Int<T>, E> {
                match text.parse::<i128>() {
                    Ok(value) => fit(value),
                    Err(_) => text
                        .parse()
                        .map_or_else(|_| Err(E::invalid_value(Unexpected::Str("text"), &self)), whole),
                }
            }
        }
        deserializer.deserialize_any(Whole(PhantomData))
    }
}

fn fit<T: TryFrom<i128>, E: Error>(value: i128) -> Result<Int<T>, E> {
    T::try_from(value).map(Int).map_err(|_| E::custom("a whole number out of range"))
}

fn whole<T: TryFrom<i128>, E: Error>(value: f64) -> Result<Int<T>, E> {
    if value.fract() != 0.0 || !value.is_finite() || value.abs() > 1e19 {
        return Err(E::custom("not a whole number"));
    }
    // Within 1e19, which an i128 holds exactly.
    #[allow(clippy::cast_possible_truncation)]
    fit(value as i128)
}

impl<'de> Deserialize<'de> for Double {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Double;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"NaN\", \"Infinity\", \"-Infinity\", or a string that holds a number")
            }

            #[allow(clippy::cast_precision_loss)]
            fn visit_i64<E: Error>(self, value: i64) -> Result<Double, E> {
                Ok(Double(value as f64))
            }

            #[allow(clippy::cast_precision_loss)]
            fn visit_u64<E: Error>(self, value: u64) -> Result<Double, E> {
                Ok(Double(value as f64))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Double, E> {
                Ok(Double(value))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Double, E> {
                let value = match text {
                    "NaN" => f64::NAN,
                    "Infinity" => f64::INFINITY,
                    "-Infinity" => f64::NEG_INFINITY,
                    _ if text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) => {
                        text.parse().map_err(|_| E::invalid_value(Unexpected::Str("text"), &self))?
                    }
                    _ => return Err(E::invalid_value(Unexpected::Str("text"), &self)),
                };
                Ok(Double(value))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        hex::decode(&text).map(Self).map_err(|_| D::Error::custom("an id must be hex digits, not base64"))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let config = GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true);
        let text = String::deserialize(deserializer)?;
        let url_safe = text.contains(['-', '_']);
        let alphabet = if url_safe { &URL_SAFE } else { &STANDARD };
        let bytes = GeneralPurpose::new(alphabet, config).decode(text);
        bytes.map(Self).map_err(|_| D::Error::custom("bytes must be base64"))
    }
}
