//! The only decompressor of the crate: capped, so that a bomb costs no more than the limit.

use std::io::{BufRead, Read};

use bytes::Bytes;

use super::Error;

/// `Content-Encoding` or `grpc-encoding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    #[default]
    Identity,
    /// gzip, several members in a row included.
    Gzip,
    /// Zstandard, several frames in a row included.
    Zstd,
}

impl Encoding {
    /// Reads a header's value; absent means identity.
    ///
    /// # Errors
    /// [`Error::Encoding`] for anything else.
    pub fn parse(value: Option<&str>) -> Result<Self, Error> {
        match value.map(|v| v.trim().to_ascii_lowercase()).as_deref() {
            None | Some("" | "identity") => Ok(Self::Identity),
            Some("gzip") => Ok(Self::Gzip),
            Some("zstd") => Ok(Self::Zstd),
            Some(other) => Err(Error::Encoding(other.to_owned())),
        }
    }
}

/// The plain bytes of `body`.
///
/// # Errors
/// [`Error::TooLarge`] past `bytes_max`, before more than that is held; [`Error::Invalid`] for damaged input.
pub fn inflate(encoding: Encoding, body: Bytes, bytes_max: usize) -> Result<Bytes, Error> {
    if body.len() > bytes_max {
        return Err(too_large(bytes_max));
    }
    match encoding {
        Encoding::Identity => Ok(body),
        Encoding::Gzip => capped(flate2::bufread::MultiGzDecoder::new(&body[..]), bytes_max, "gzip"),
        Encoding::Zstd => capped(frames(&body[..])?, bytes_max, "zstd"),
    }
}

/// A reader over the plain bytes of a compressed file, for imports; the caller caps what it takes.
///
/// # Errors
/// When the decompressor cannot be made.
pub fn reader<'a>(encoding: Encoding, source: impl BufRead + 'a) -> std::io::Result<Box<dyn Read + 'a>> {
    Ok(match encoding {
        Encoding::Identity => Box::new(source),
        Encoding::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        Encoding::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(source)?),
    })
}

fn frames(body: &[u8]) -> Result<impl Read, Error> {
    let mut decoder =
        zstd::stream::read::Decoder::with_buffer(body).map_err(|e| Error::Invalid(e.to_string()))?;
    // The window is what a decoder allocates before it has seen a byte of content: 8 MiB is the format's own advice.
    decoder.window_log_max(23).map_err(|e| Error::Invalid(e.to_string()))?;
    Ok(decoder)
}

fn capped(reader: impl Read, bytes_max: usize, name: &str) -> Result<Bytes, Error> {
    let mut plain = Vec::new();
    let read = reader.take(bytes_max as u64 + 1).read_to_end(&mut plain);
    let _ = read.map_err(|_| Error::Invalid(format!("damaged or cut {name} data")))?;
    if plain.len() > bytes_max { Err(too_large(bytes_max)) } else { Ok(plain.into()) }
}

fn too_large(value: usize) -> Error {
    Error::TooLarge { limit: "otlp.request_bytes_max", value }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_second_member_of_a_file_is_dropped() {
        let both = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(inflate(Encoding::Gzip, both.into(), 100).unwrap(), "one two");
        let both =
            [zstd::encode_all(&b"one "[..], 1).unwrap(), zstd::encode_all(&b"two"[..], 1).unwrap()].concat();
        assert_eq!(inflate(Encoding::Zstd, both.into(), 100).unwrap(), "one two");
    }

    #[test]
    fn a_bomb_is_inflated_past_the_limit() {
        for (encoding, bytes) in [
            (Encoding::Gzip, gzip(&vec![0; 1 << 20])),
            (Encoding::Zstd, zstd::encode_all(&vec![0; 1 << 20][..], 1).unwrap()),
        ] {
            assert!(inflate(encoding, bytes.clone().into(), 1 << 20).is_ok(), "exactly the limit");
            let refused = inflate(encoding, bytes.into(), (1 << 20) - 1);
            assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
        }
    }

    #[test]
    fn cut_data_passes_for_whole() {
        for cut in [0, 1, 10, 20] {
            let whole = gzip(b"some bytes that are long enough");
            let cut = whole[..cut].to_vec();
            assert!(matches!(inflate(Encoding::Gzip, cut.into(), 100), Err(Error::Invalid(_))));
        }
        assert!(matches!(inflate(Encoding::Zstd, Bytes::from_static(b"junk"), 100), Err(Error::Invalid(_))));
    }
}
