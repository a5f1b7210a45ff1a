//! The only decompressor of the crate: capped, so that a bomb costs no more than the limit.

use std::io::{BufRead, Read};

use bytes::Bytes;

use super::Error;

/// Bytes that are inflated between two looks at the budget.
const STEP_BYTES: usize = 256 << 10;
/// Members of one gzip body; each costs time even when it holds nothing.
const MEMBERS_MAX: usize = 1024;

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

/// The plain bytes of `body`. `charge` is asked before more than so many bytes are held.
///
/// # Errors
/// [`Error::TooLarge`] past `bytes_max`, before more than that is held; [`Error::Invalid`] for damaged input; and what
/// `charge` says.
pub fn inflate(
    encoding: Encoding,
    body: Bytes,
    bytes_max: usize,
    charge: impl FnMut(usize) -> Result<(), Error>,
) -> Result<Bytes, Error> {
    if body.len() > bytes_max {
        return Err(too_large(bytes_max));
    }
    let mut plain = Plain { bytes: Vec::new(), bytes_max, charge };
    match encoding {
        Encoding::Identity => return Ok(body),
        Encoding::Gzip => {
            let mut rest = &body[..];
            for _ in 0..MEMBERS_MAX {
                plain.take(flate2::bufread::GzDecoder::new(&mut rest), "gzip")?;
                if rest.is_empty() {
                    return Ok(plain.bytes.into());
                }
            }
            return Err(Error::Invalid(format!("more than {MEMBERS_MAX} gzip members")));
        }
        Encoding::Zstd => plain.take(frames(&body[..])?, "zstd")?,
    }
    Ok(plain.bytes.into())
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

struct Plain<C> {
    bytes: Vec<u8>,
    bytes_max: usize,
    charge: C,
}

impl<C: FnMut(usize) -> Result<(), Error>> Plain<C> {
    /// Reads to the end, charging for each step before it is held.
    fn take(&mut self, mut reader: impl Read, name: &str) -> Result<(), Error> {
        loop {
            let before = self.bytes.len();
            let step = STEP_BYTES.min(self.bytes_max - before + 1);
            (self.charge)(before + step)?;
            self.bytes.reserve_exact(if self.bytes.capacity() - before < step {
                step.max(before / 2)
            } else {
                0
            });
            let read = reader.by_ref().take(step as u64).read_to_end(&mut self.bytes);
            let _ = read.map_err(|_| Error::Invalid(format!("damaged or cut {name} data")))?;
            if self.bytes.len() > self.bytes_max {
                return Err(too_large(self.bytes_max));
            }
            if self.bytes.len() < before + step {
                return Ok(());
            }
        }
    }
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
        assert_eq!(inflate(Encoding::Gzip, both.into(), 100, |_| Ok(())).unwrap(), "one two");
        let both =
            [zstd::encode_all(&b"one "[..], 1).unwrap(), zstd::encode_all(&b"two"[..], 1).unwrap()].concat();
        assert_eq!(inflate(Encoding::Zstd, both.into(), 100, |_| Ok(())).unwrap(), "one two");
    }

    #[test]
    fn a_bomb_is_inflated_past_the_limit() {
        for (encoding, bytes) in [
            (Encoding::Gzip, gzip(&vec![0; 1 << 20])),
            (Encoding::Zstd, zstd::encode_all(&vec![0; 1 << 20][..], 1).unwrap()),
        ] {
            assert!(
                inflate(encoding, bytes.clone().into(), 1 << 20, |_| Ok(())).is_ok(),
                "exactly the limit"
            );
            let refused = inflate(encoding, bytes.into(), (1 << 20) - 1, |_| Ok(()));
            assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
        }
    }

    #[test]
    fn many_bodies_that_grow_at_once_are_not_charged_for() {
        let body: Bytes = gzip(&vec![0; 4 << 20]).into();
        let mut held = 0;
        let refused = inflate(Encoding::Gzip, body, 64 << 20, |bytes| {
            held = bytes;
            if bytes > 1 << 20 { Err(Error::Slow) } else { Ok(()) }
        });
        assert!(matches!(refused, Err(Error::Slow)) && held <= (1 << 20) + STEP_BYTES, "{held}");
    }

    #[test]
    fn empty_members_keep_a_thread_busy() {
        let body: Bytes = gzip(b"").repeat(MEMBERS_MAX + 1).into();
        assert!(matches!(inflate(Encoding::Gzip, body, 1 << 20, |_| Ok(())), Err(Error::Invalid(_))));
    }

    #[test]
    fn cut_data_passes_for_whole() {
        for cut in [0, 1, 10, 20] {
            let whole = gzip(b"some bytes that are long enough");
            let cut = whole[..cut].to_vec();
            assert!(matches!(inflate(Encoding::Gzip, cut.into(), 100, |_| Ok(())), Err(Error::Invalid(_))));
        }
        assert!(matches!(
            inflate(Encoding::Zstd, Bytes::from_static(b"junk"), 100, |_| Ok(())),
            Err(Error::Invalid(_))
        ));
    }
}
