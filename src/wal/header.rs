//! The first bytes of a segment: what it is, and its salt.
//!
//! ```text
//! twice: "SPANWAL" 7 | version 1 | salt 8 | crc32c of the 16 bytes before 4
//! ```
//! One whole copy is enough. Without the salt no frame of the segment could be found, hence two.

use std::{fs::File, io, io::Read, path::Path};

use super::frame::Salt;

/// Bytes of a segment before its first frame.
pub(super) const BYTES: usize = 2 * COPY_BYTES;

const COPY_BYTES: usize = 20;
const NAME: [u8; 7] = *b"SPANWAL";
const VERSION: u8 = 2;

/// What the start of a segment file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// A segment of this format.
    Known(Salt),
    /// Too short to hold a frame: a crash while it was made.
    Unborn,
    /// A segment of another version.
    Foreign,
    /// Neither copy is whole.
    Unreadable,
}

/// The bytes that a segment starts with.
pub(super) fn encode(salt: Salt) -> [u8; BYTES] {
    let mut copy = [0; COPY_BYTES];
    let (text, crc) = copy.split_at_mut(COPY_BYTES - 4);
    let parts = NAME.iter().chain(&[VERSION]).chain(&salt);
    for (place, byte) in text.iter_mut().zip(parts) {
        *place = *byte;
    }
    crc.copy_from_slice(&crc32c::crc32c(text).to_le_bytes());
    let mut both = [0; BYTES];
    for half in both.chunks_exact_mut(COPY_BYTES) {
        half.copy_from_slice(&copy);
    }
    both
}

/// Reads the start of a file.
pub(super) fn read(path: &Path) -> io::Result<Head> {
    let mut bytes = Vec::with_capacity(BYTES);
    let _ = File::open(path)?.take(BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(parse(&bytes))
}

fn parse(bytes: &[u8]) -> Head {
    if let Some(salt) = bytes.chunks_exact(COPY_BYTES).take(2).find_map(salt_of) {
        // A file of one copy cannot hold a frame yet.
        return if bytes.len() < BYTES { Head::Unborn } else { Head::Known(salt) };
    }
    let named = bytes.get(..NAME.len()) == Some(NAME.as_slice());
    if named && bytes.get(NAME.len()).is_some_and(|version| *version != VERSION) {
        Head::Foreign
    } else if bytes.len() <= BYTES {
        Head::Unborn
    } else {
        Head::Unreadable
    }
}

fn salt_of(copy: &[u8]) -> Option<Salt> {
    let (text, crc) = copy.split_at_checked(COPY_BYTES - 4)?;
    let version = text.strip_prefix(&NAME)?;
    let (version, salt) = version.split_first()?;
    let whole = crc == crc32c::crc32c(text).to_le_bytes();
    if whole && *version == VERSION { salt.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_hides_the_salt() {
        let whole = encode(*b"saltsalt");
        for bit in 0..whole.len() * 8 {
            let mut damaged = [whole.as_slice(), b"frames"].concat();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&damaged), Head::Known(*b"saltsalt"), "bit {bit}");
        }
    }

    #[test]
    fn a_later_version_is_taken_for_damage() {
        let mut later = encode(*b"saltsalt").to_vec();
        later[7] = VERSION + 1;
        later[COPY_BYTES + 7] = VERSION + 1;
        assert_eq!(parse(&[later.as_slice(), b"frames"].concat()), Head::Foreign);
        assert_eq!(parse(b"SPANWAL\x01"), Head::Foreign, "the first version had this much");
        assert_eq!(parse(&[0; BYTES]), Head::Unborn);
        assert_eq!(parse(&[0; BYTES + 1]), Head::Unreadable);
    }
}
