//! One frame: layout and checksum.
//!
//! ```text
//! salt 8 | crc32c 4 | body length 4 | seq 8 | received_at 8 | kind 1 | tenant length 1 | tenant | body
//! ```
//! Little-endian. The checksum covers everything after itself.
//!
//! The salt is random, one a segment. It marks the start of a frame, so that a scan finds the next good one after
//! damage. A fixed mark would let a sender put a whole frame, of any tenant, inside a body and have it found there.

use std::io::Read;

use bytes::Bytes;

use crate::tenant::TenantId;

/// What every frame of one segment starts with.
pub(super) type Salt = [u8; 8];

/// Bytes before the tenant's name.
pub(super) const HEADER_BYTES: usize = 34;
/// Bytes before those that the checksum covers.
pub(super) const UNCOVERED_BYTES: usize = 12;
/// Bytes from which a header can be read, whatever the tenant's name.
pub(super) const HEADER_BYTES_MAX: usize = HEADER_BYTES + 63;

/// What a frame's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// An `ExportTraceServiceRequest`.
    Traces = 1,
    /// An `ExportLogsServiceRequest`.
    Logs = 2,
    /// A checkpoint posted to the API, as JSON.
    Checkpoint = 3,
    /// An erasure.
    Erase = 4,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Traces, Self::Logs, Self::Checkpoint, Self::Erase].into_iter().find(|k| *k as u8 == byte)
    }

    /// A word for file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Logs => "logs",
            Self::Checkpoint => "checkpoint",
            Self::Erase => "erase",
        }
    }
}

/// One received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its number: gap-free, in the order of arrival, independent of any clock.
    pub seq: u64,
    /// Whose it is.
    pub tenant: TenantId,
    /// When it was received, nanoseconds since the Unix epoch.
    pub received_at: u64,
    /// What `bytes` are.
    pub kind: FrameKind,
    /// As received, uncompressed.
    pub bytes: Bytes,
}

/// The part of a frame before its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) crc: u32,
    pub(super) body_bytes: usize,
    pub(super) seq: u64,
    pub(super) received_at: u64,
    pub(super) kind: FrameKind,
    pub(super) tenant: TenantId,
}

impl Header {
    /// Bytes from the frame's start to its body.
    pub(super) fn bytes(&self) -> usize {
        HEADER_BYTES + self.tenant.as_str().len()
    }

    /// Bytes of the whole frame.
    pub(super) fn frame_bytes(&self) -> u64 {
        (self.bytes() + self.body_bytes) as u64
    }

    /// Reads a header from the start of `bytes`; `None` when there is none.
    pub(super) fn parse(bytes: &[u8], salt: Salt) -> Option<Self> {
        let bytes = bytes.strip_prefix(&salt)?;
        let field = |from: usize, to: usize| bytes.get(from..to);
        let u32_at = |at| Some(u32::from_le_bytes(field(at, at + 4)?.try_into().ok()?));
        let u64_at = |at| Some(u64::from_le_bytes(field(at, at + 8)?.try_into().ok()?));
        let (kind, tenant_bytes) = (*bytes.get(24)?, usize::from(*bytes.get(25)?));
        let tenant = std::str::from_utf8(field(26, 26 + tenant_bytes)?).ok()?;
        Some(Self {
            crc: u32_at(0)?,
            body_bytes: usize::try_from(u32_at(4)?).ok()?,
            seq: u64_at(8)?,
            received_at: u64_at(16)?,
            kind: FrameKind::from_byte(kind)?,
            tenant: tenant.parse().ok()?,
        })
    }
}

/// Appends the frame's bytes to `into`.
pub(super) fn encode(frame: &Frame, salt: Salt, into: &mut Vec<u8>) {
    let start = into.len();
    let tenant = frame.tenant.as_str().as_bytes();
    // Both fit: a tenant has at most 63 bytes, and `append` refuses a body that is longer than u32.
    let (body_bytes, tenant_bytes) =
        (u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX), u8::try_from(tenant.len()).unwrap_or(u8::MAX));
    into.extend_from_slice(&salt);
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(&body_bytes.to_le_bytes());
    into.extend_from_slice(&frame.seq.to_le_bytes());
    into.extend_from_slice(&frame.received_at.to_le_bytes());
    into.extend_from_slice(&[frame.kind as u8, tenant_bytes]);
    into.extend_from_slice(tenant);
    into.extend_from_slice(&frame.bytes);
    let crc = crc32c::crc32c(into.get(start + UNCOVERED_BYTES..).unwrap_or_default());
    if let Some(place) = into.get_mut(start + salt.len()..start + UNCOVERED_BYTES) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}

/// A salt that no sender can guess.
///
/// # Errors
/// When the system gives no random bytes.
pub(super) fn random_salt() -> std::io::Result<Salt> {
    let mut salt = Salt::default();
    std::fs::File::open("/dev/urandom")?.read_exact(&mut salt)?;
    Ok(salt)
}
