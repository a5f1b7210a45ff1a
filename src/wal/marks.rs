//! What the tables already hold, per tenant, and the greatest number given out.
//!
//! One file: a checksum in hexadecimal, a line break, JSON. Without the checksum one wrong digit would raise a mark,
//! and frames below it would be taken for stored.

use std::{collections::BTreeMap, io, path::Path};

use serde::{Deserialize, Serialize};

use super::files::{self, Files};
use crate::tenant::TenantId;

/// The name of the marks file.
pub(super) const FILE: &str = "marks";

/// The content of the marks file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// A number that was never given out, though all segments may be gone.
    pub(super) next_seq: u64,
    /// Frames of the tenant up to here are in the tables.
    pub(super) tenants: BTreeMap<TenantId, u64>,
}

impl Marks {
    /// True when the tables hold the frame.
    pub(super) fn cover(&self, tenant: &TenantId, seq: u64) -> bool {
        self.tenants.get(tenant).is_some_and(|mark| seq <= *mark)
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    next_seq: u64,
    tenants: BTreeMap<String, u64>,
}

/// Reads the marks; empty ones when there is no file yet, `None` when the file is damaged.
///
/// Marks only save time, so damaged ones can be done without: the tables say themselves what they hold.
pub(super) fn read(folder: &Path) -> io::Result<Option<Marks>> {
    match std::fs::read(folder.join(FILE)) {
        Ok(bytes) => Ok(parse(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(Marks::default())),
        Err(error) => Err(error),
    }
}

/// Writes the marks durably.
pub(super) fn write(files: &dyn Files, folder: &Path, marks: &Marks) -> io::Result<()> {
    let tenants = marks.tenants.iter().map(|(t, seq)| (t.to_string(), *seq)).collect();
    let json = serde_json::to_vec(&Written { next_seq: marks.next_seq, tenants })?;
    let mut bytes = format!("{:08x}\n", crc32c::crc32c(&json)).into_bytes();
    bytes.extend_from_slice(&json);
    files::replace(files, &folder.join(FILE), &bytes)
}

fn parse(bytes: &[u8]) -> Option<Marks> {
    let (crc, json) = bytes.split_at_checked(9)?;
    if crc != format!("{:08x}\n", crc32c::crc32c(json)).as_bytes() {
        return None;
    }
    let written: Written = serde_json::from_slice(json).ok()?;
    let tenants = written.tenants.into_iter().map(|(t, seq)| Some((t.parse().ok()?, seq)));
    Some(Marks { next_seq: written.next_seq, tenants: tenants.collect::<Option<_>>()? })
}
