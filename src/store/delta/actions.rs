//! Lines of a commit file (Delta protocol, "Actions"). Unknown members and unknown actions are let through.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One line of `N.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// A data file joins the table.
    Add(Add),
    /// A data file leaves the table.
    Remove(Remove),
    /// How far an application has got.
    Txn(Txn),
    /// Who wrote the commit.
    CommitInfo(CommitInfo),
    /// What a reader and a writer must know.
    Protocol(Protocol),
    /// Schema and settings.
    MetaData(MetaData),
}

/// A data file with its statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// Relative to the table.
    pub path: String,
    /// `ingest_date` only.
    pub partition_values: BTreeMap<String, Option<String>>,
    /// Bytes.
    pub size: i64,
    /// Milliseconds since the Unix epoch.
    pub modification_time: i64,
    /// False when the rows were in the table before (a rewrite).
    pub data_change: bool,
    /// JSON text of the statistics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
}

/// A data file that is no longer part of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// As in the `add`.
    pub path: String,
    /// Milliseconds since the Unix epoch.
    #[serde(default)]
    pub deletion_timestamp: Option<i64>,
    /// As in [`Add`].
    pub data_change: bool,
}

/// An application's own version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Txn {
    /// `wal/<node>`, `derive`, `owner`.
    pub app_id: String,
    /// Never goes back.
    pub version: i64,
}

/// Names a commit, so that its writer can find it again after an unknown outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CommitInfo {
    /// Milliseconds since the Unix epoch.
    pub timestamp: i64,
    /// `CREATE TABLE` or `WRITE`.
    pub operation: String,
    /// Ours; empty for another writer's commit.
    #[serde(rename = "commit_id")]
    pub commit_id: String,
}

/// Versions of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    /// 1: what every engine reads.
    pub min_reader_version: i32,
    /// 2.
    pub min_writer_version: i32,
}

/// The table itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetaData {
    /// A UUID.
    pub id: String,
    /// Parquet.
    pub format: Format,
    /// The schema as JSON text.
    pub schema_string: String,
    /// `["ingest_date"]`.
    pub partition_columns: Vec<String>,
    /// Table properties.
    pub configuration: BTreeMap<String, String>,
    /// Milliseconds since the Unix epoch.
    #[serde(default)]
    pub created_time: Option<i64>,
}

/// The format of data files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// `parquet`.
    pub provider: String,
    /// None are used.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// The actions of a commit file; lines with actions that are not used here are skipped.
///
/// # Errors
/// When a line is not JSON, or a known action misses a member.
pub fn parse(bytes: &[u8]) -> Result<Vec<Action>, serde_json::Error> {
    const KNOWN: [&str; 6] = ["add", "remove", "txn", "commitInfo", "protocol", "metaData"];
    let mut actions = Vec::new();
    for line in bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        let value: serde_json::Value = serde_json::from_slice(line)?;
        if value.as_object().is_some_and(|o| o.keys().any(|k| KNOWN.contains(&k.as_str()))) {
            actions.push(serde_json::from_value(value)?);
        }
    }
    Ok(actions)
}

/// The commit file of `actions`.
///
/// # Errors
/// Never for the actions of this module; kept so that none is lost silently.
pub fn print(actions: &[Action]) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = Vec::new();
    for action in actions {
        serde_json::to_writer(&mut bytes, action)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}
