//! One frame: layout and checksum.
//!
//! ```text
//! magic 4 | crc32c 4 | body length 4 | seq 8 | received_at 8 | kind 1 | tenant length 1 | tenant | body
//! ```
//! Little-endian. The checksum covers everything after itself.

use bytes::Bytes;

use crate::tenant::TenantId;

/// Marks the start of a frame, so that a scan can find the next good one after damage.
pub(super) const MAGIC: [u8; 4] = [0xf5, b'S', b'R', 0x1e];
/// Bytes before the tenant's name.
pub(super) const HEADER_BYTES: usize = 30;

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

    /// Reads a header from the start of `bytes`; `None` when there is none.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let field = |from: usize, to: usize| bytes.get(from..to);
        if field(0, 4)? != MAGIC {
            return None;
        }
        let u32_at = |at| Some(u32::from_le_bytes(field(at, at + 4)?.try_into().ok()?));
        let u64_at = |at| Some(u64::from_le_bytes(field(at, at + 8)?.try_into().ok()?));
        let tenant_bytes = usize::from(*bytes.get(29)?);
        let tenant = std::str::from_utf8(field(HEADER_BYTES, HEADER_BYTES + tenant_bytes)?).ok()?;
        Some(Self {
            crc: u32_at(4)?,
            body_bytes: usize::try_from(u32_at(8)?).ok()?,
            seq: u64_at(12)?,
            received_at: u64_at(20)?,
            kind: FrameKind::from_byte(*bytes.get(28)?)?,
            tenant: tenant.parse().ok()?,
        })
    }
}

/// Appends the frame's bytes to `into`.
pub(super) fn encode(frame: &Frame, into: &mut Vec<u8>) {
    let start = into.len();
    let tenant = frame.tenant.as_str().as_bytes();
    // Both fit: a tenant has at most 63 bytes, a body at most `frame_bytes_max`, which is held to u32.
    let (body_bytes, tenant_bytes) =
        (u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX), u8::try_from(tenant.len()).unwrap_or(u8::MAX));
    into.extend_from_slice(&MAGIC);
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(&body_bytes.to_le_bytes());
    into.extend_from_slice(&frame.seq.to_le_bytes());
    into.extend_from_slice(&frame.received_at.to_le_bytes());
    into.extend_from_slice(&[frame.kind as u8, tenant_bytes]);
    into.extend_from_slice(tenant);
    into.extend_from_slice(&frame.bytes);
    let crc = crc32c::crc32c(into.get(start + 8..).unwrap_or_default());
    if let Some(place) = into.get_mut(start + 4..start + 8) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}
