//! What the tables already hold, per tenant, and the greatest number given out.

use std::{collections::BTreeMap, io, path::Path};

use serde::{Deserialize, Serialize};

use super::files::Files;
use crate::tenant::TenantId;

const FILE: &str = "marks.json";

/// The content of the marks file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// A number that was never given out, though all segments may be gone.
    pub(super) next_seq: u64,
    /// Frames of the tenant up to here are in the tables.
    pub(super) tenants: BTreeMap<TenantId, u64>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    next_seq: u64,
    tenants: BTreeMap<String, u64>,
}

/// Reads the marks; none when there is no file yet.
pub(super) fn read(folder: &Path) -> io::Result<Marks> {
    let bytes = match std::fs::read(folder.join(FILE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Marks::default()),
        Err(error) => return Err(error),
    };
    let written: Written = serde_json::from_slice(&bytes)?;
    let tenants = written.tenants.into_iter().filter_map(|(t, seq)| Some((t.parse().ok()?, seq))).collect();
    Ok(Marks { next_seq: written.next_seq, tenants })
}

/// Writes the marks durably.
pub(super) fn write(folder: &Path, marks: &Marks, files: &dyn Files) -> io::Result<()> {
    let tenants = marks.tenants.iter().map(|(t, seq)| (t.to_string(), *seq)).collect();
    let bytes = serde_json::to_vec(&Written { next_seq: marks.next_seq, tenants })?;
    files.replace(&folder.join(FILE), &bytes)
}
