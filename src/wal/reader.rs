//! Reading segments: the scan that checks every frame and finds its way past damage, and one frame by its place.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt, path::Path, path::PathBuf, sync::Arc};

use super::{
    Error,
    frame::{Frame, FrameKind, HEADER_BYTES_MAX, Header, Salt, UNCOVERED_BYTES},
    header,
};
use crate::tenant::TenantId;

/// Bytes that a scan holds in memory, whatever the frames are.
const WINDOW_BYTES: usize = 256 << 10;

/// Where a frame stands; its bytes are not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRef {
    /// Its number.
    pub seq: u64,
    /// Whose it is.
    pub tenant: TenantId,
    /// When it was received, nanoseconds since the Unix epoch.
    pub received_at: u64,
    /// What it holds.
    pub kind: FrameKind,
    /// Bytes of its body.
    pub body_bytes: usize,
    path: Arc<PathBuf>,
    salt: Salt,
    offset: u64,
}

/// What a segment holds.
#[derive(Debug)]
pub(super) struct Scan {
    /// Good frames, in order.
    pub(super) frames: Vec<FrameRef>,
    /// Stretches that are no good frame.
    pub(super) damage: Vec<Range<u64>>,
    /// The file's length.
    pub(super) bytes: u64,
}

/// Checks every frame of a segment. Numbers below `first_seq`, or that do not rise, are damage.
pub(super) fn scan(path: &Arc<PathBuf>, salt: Salt, first_seq: u64) -> io::Result<Scan> {
    let mut window = Window::open(path)?;
    let (mut frames, mut damage): (Vec<FrameRef>, Vec<Range<u64>>) = (Vec::new(), Vec::new());
    let mut least_seq = first_seq;
    let mut offset = header::BYTES as u64;
    while offset < window.length {
        let header = frame_at(&mut window, offset, salt)?.filter(|h| h.seq >= least_seq && h.seq < u64::MAX);
        let Some(header) = header else {
            let next = next_salt(&mut window, offset + 1, salt)?;
            match damage.last_mut().filter(|d| d.end == offset) {
                Some(before) => before.end = next,
                None => damage.push(offset..next),
            }
            offset = next;
            continue;
        };
        least_seq = header.seq + 1;
        let size = header.frame_bytes();
        frames.push(FrameRef {
            seq: header.seq,
            tenant: header.tenant,
            received_at: header.received_at,
            kind: header.kind,
            body_bytes: header.body_bytes,
            path: path.clone(),
            salt,
            offset,
        });
        offset += size;
    }
    Ok(Scan { frames, damage, bytes: window.length })
}

/// Reads a frame back and checks it.
pub(super) fn read(frame: &FrameRef) -> Result<Frame, Error> {
    let unreadable = |problem: String| Error::Unreadable { seq: frame.seq, problem };
    let fail = |error: io::Error| unreadable(error.to_string());
    let file = File::open(frame.path.as_path()).map_err(fail)?;
    let mut head = [0; HEADER_BYTES_MAX];
    let read = read_at(&file, &mut head, frame.offset).map_err(fail)?;
    let header = head.get(..read).and_then(|head| Header::parse(head, frame.salt));
    // What the index says was checked; the file may have changed since, and must not say how much to allocate.
    let header = header
        .filter(|h| h.body_bytes == frame.body_bytes && h.seq == frame.seq && h.tenant == frame.tenant)
        .ok_or_else(|| unreadable("another frame, or none, stands there".into()))?;
    let size = usize::try_from(header.frame_bytes()).map_err(|e| unreadable(e.to_string()))?;
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, frame.offset).map_err(fail)?;
    if crc32c::crc32c(bytes.get(UNCOVERED_BYTES..).unwrap_or_default()) != header.crc {
        return Err(unreadable("its checksum does not hold".into()));
    }
    let body = bytes::Bytes::from(bytes).split_off(header.bytes());
    Ok(Frame {
        seq: header.seq,
        tenant: header.tenant,
        received_at: header.received_at,
        kind: header.kind,
        bytes: body,
    })
}

/// Hands the bytes of a range over, a window at a time.
pub(super) fn copy(
    path: &Path,
    range: Range<u64>,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut window = Window::open(path)?;
    let mut offset = range.start;
    while offset < range.end {
        let bytes = window.at(offset, 1)?;
        let wanted = usize::try_from(range.end - offset).unwrap_or(usize::MAX).min(bytes.len());
        let Some(part) = bytes.get(..wanted).filter(|part| !part.is_empty()) else { break };
        each(part)?;
        offset += part.len() as u64;
    }
    Ok(())
}

/// The header of the good frame at `offset`, or `None`.
fn frame_at(window: &mut Window, offset: u64, salt: Salt) -> io::Result<Option<Header>> {
    let Some(header) = Header::parse(window.at(offset, HEADER_BYTES_MAX)?, salt) else { return Ok(None) };
    let end = offset.saturating_add(header.frame_bytes());
    if end > window.length {
        return Ok(None);
    }
    let (mut crc, mut at) = (0, offset + UNCOVERED_BYTES as u64);
    while at < end {
        let bytes = window.at(at, 1)?;
        let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(bytes.len());
        let Some(part) = bytes.get(..wanted).filter(|part| !part.is_empty()) else { return Ok(None) };
        crc = crc32c::crc32c_append(crc, part);
        at += part.len() as u64;
    }
    Ok((crc == header.crc).then_some(header))
}

/// The next place at or after `from` where a frame may start; the file's end when there is none.
fn next_salt(window: &mut Window, from: u64, salt: Salt) -> io::Result<u64> {
    let mut at = from;
    loop {
        let bytes = window.at(at, salt.len())?;
        if let Some(place) = bytes.windows(salt.len()).position(|w| w == salt) {
            return Ok(at + place as u64);
        }
        if bytes.len() < salt.len() {
            return Ok(window.length);
        }
        at += (bytes.len() - salt.len() + 1) as u64;
    }
}

/// A file, of which a part is in memory.
struct Window {
    file: File,
    length: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { file, length, start: 0, bytes: Vec::new() })
    }

    /// What is in memory from `offset` on: at least `wanted` bytes, fewer only where the file ends.
    fn at(&mut self, offset: u64, wanted: usize) -> io::Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        let needed = offset.saturating_add(wanted as u64).min(self.length);
        if offset < self.start || offset > end || needed > end {
            self.bytes.resize(WINDOW_BYTES, 0);
            let read = read_at(&self.file, &mut self.bytes, offset)?;
            self.bytes.truncate(read);
            self.start = offset;
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        Ok(self.bytes.get(from..).unwrap_or_default())
    }
}

/// Fills the buffer as far as the file goes.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
