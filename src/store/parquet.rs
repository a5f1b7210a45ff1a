//! Data files: rows to Parquet and back.

use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc};

use arrow::{
    array::{AsArray, RecordBatch},
    json::writer::LineDelimitedWriter,
};
use bytes::Bytes;
use parquet::{
    arrow::{
        ArrowWriter, ProjectionMask,
        arrow_reader::{ArrowPredicateFn, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowFilter},
    },
    basic::{Compression, ZstdLevel},
    file::{
        metadata::{PageIndexPolicy, ParquetMetaData},
        properties::{EnabledStatistics, WriterProperties},
    },
    schema::types::ColumnPath,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    batch::{BATCH_ROWS, Batches},
    schema::Table,
};

/// A file of so many bytes in memory is read row by row: a column of more rows could have more text than a batch can.
const LARGE_FILE_BYTES: u64 = 1 << 30;
/// Bytes of a page of a body column.
const BODY_PAGE_BYTES: usize = 1 << 20;
/// Columns that hold content: no dictionary, large pages, no statistics.
const BODIES: [&str; 19] = [
    "attributes",
    "attributes_repeated",
    "events",
    "links",
    "body",
    "resource",
    "scope",
    "system_instructions",
    "tool_definitions",
    "input_text_last",
    "output_text",
    "output_messages",
    "tool_arguments",
    "tool_result",
    "retrieval_query",
    "retrieval_documents",
    "parts",
    "text",
    "state",
];

/// A data file could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Rows do not fit the columns.
    #[error("cannot write a data file: {0}; report this with the version of the program")]
    Write(String),
    /// The bytes are not what was written.
    #[error("the data file is damaged: {0}; restore it from a backup")]
    Damaged(String),
}

/// A data file that is being written, row by row: its rows need not be in memory together.
pub struct Writer {
    file: ArrowWriter<Vec<u8>>,
    batches: Batches,
    rows: usize,
}

impl Writer {
    /// An empty file of `table`.
    ///
    /// # Errors
    /// [`Error::Write`] when the columns cannot be written, which none of ours is.
    pub fn new(table: Table) -> Result<Self, Error> {
        let file = ArrowWriter::try_new(Vec::new(), table.arrow(), Some(properties(table)?));
        Ok(Self { file: file.map_err(|e| failed(&e))?, batches: Batches::new(table)?, rows: 0 })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`Error::Write`] when it does not fit the table.
    pub fn push<T: Serialize>(&mut self, row: &T) -> Result<(), Error> {
        let batch = self.batches.push(row)?;
        self.write(batch)
    }

    /// The bytes of the file, and the number of its rows.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn finish(mut self) -> Result<(Vec<u8>, usize), Error> {
        let batch = self.batches.finish()?;
        self.write(batch)?;
        let bytes = self.file.into_inner().map_err(|e| failed(&e))?;
        Ok((bytes, self.rows))
    }

    fn write(&mut self, batch: Option<RecordBatch>) -> Result<(), Error> {
        let Some(batch) = batch else { return Ok(()) };
        self.rows += batch.num_rows();
        self.file.write(&batch).map_err(|e| failed(&e))
    }
}

fn failed(error: &dyn std::fmt::Display) -> Error {
    Error::Write(error.to_string())
}

fn properties(table: Table) -> Result<WriterProperties, Error> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).map_err(|e| failed(&e))?))
        .set_max_row_group_row_count(Some(65_536))
        .set_statistics_enabled(EnabledStatistics::Page);
    for name in BODIES {
        // A map is two Parquet columns.
        let paths = match name {
            "attributes" => vec![vec![name, "key_value", "value"]],
            _ => vec![vec![name]],
        };
        for path in paths {
            let path = ColumnPath::new(path.into_iter().map(String::from).collect());
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_data_page_size_limit(path.clone(), BODY_PAGE_BYTES)
                .set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    }
    Ok(properties.set_column_bloom_filter_enabled(ColumnPath::from(table.key()), true).build())
}

/// The rows of a data file; with `keys`, only those whose column `key` has one of them.
///
/// # Errors
/// [`Error::Damaged`], also when the decoder panics on the bytes.
pub fn read<T: DeserializeOwned>(
    file: Bytes,
    key: &str,
    keys: Option<&BTreeSet<String>>,
) -> Result<Vec<T>, Error> {
    guarded(|| read_inner(file, key, keys, None))
}

/// The same rows with `columns` only.
///
/// # Errors
/// As [`read`].
pub fn project<T: DeserializeOwned>(
    file: Bytes,
    key: &str,
    keys: Option<&BTreeSet<String>>,
    columns: &[&str],
) -> Result<Vec<T>, Error> {
    guarded(|| read_inner(file, key, keys, Some(columns)))
}

/// The decoder panics on some damaged bytes.
fn guarded<T>(read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::Damaged("the decoder gave up".into())))
}

/// Row groups whose bloom filter does not exclude all of `wanted`.
fn groups_with(
    builder: &ParquetRecordBatchReaderBuilder<Bytes>,
    key: &str,
    wanted: &BTreeSet<String>,
) -> Result<Vec<usize>, Error> {
    let column = builder.parquet_schema().columns().iter().position(|c| c.path().string() == key);
    let mut groups = Vec::new();
    for group in 0..builder.metadata().num_row_groups() {
        let filter = match column {
            Some(column) => builder
                .get_row_group_column_bloom_filter(group, column)
                .map_err(|e| Error::Damaged(e.to_string()))?,
            None => None,
        };
        if filter.is_none_or(|f| wanted.iter().any(|id| f.check(id.as_str()))) {
            groups.push(group);
        }
    }
    Ok(groups)
}

fn read_inner<T: DeserializeOwned>(
    file: Bytes,
    key: &str,
    keys: Option<&BTreeSet<String>>,
    columns: Option<&[&str]>,
) -> Result<Vec<T>, Error> {
    let damaged = |e: &dyn std::fmt::Display| Error::Damaged(e.to_string());
    // The page index lets a look-up skip pages without reading them; a scan has no use for it.
    let policy = if keys.is_some() { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
    let options = ArrowReaderOptions::new().with_page_index_policy(policy);
    let mut builder =
        ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).map_err(|e| damaged(&e))?;
    if let Some(wanted) = keys {
        let groups = groups_with(&builder, key, wanted)?;
        let mask = ProjectionMask::columns(builder.parquet_schema(), [key]);
        let wanted = wanted.clone();
        let is_wanted = ArrowPredicateFn::new(mask, move |batch| {
            let column = batch.columns().first().and_then(|c| c.as_string_opt::<i32>());
            let hit = |value: Option<&str>| value.is_none_or(|v| wanted.contains(v));
            Ok(column.into_iter().flatten().map(|v| Some(hit(v))).collect())
        });
        let filter = RowFilter::new(vec![Box::new(is_wanted)]);
        builder = builder.with_row_groups(groups).with_row_filter(filter);
    }
    if let Some(columns) = columns {
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
        builder = builder.with_projection(mask);
    }
    let mut rows = Vec::new();
    let rows_at_once = rows_at_once(in_memory(builder.metadata()));
    for batch in builder.with_batch_size(rows_at_once).build().map_err(|e| damaged(&e))? {
        let batch = Arc::new(batch.map_err(|e| damaged(&e))?);
        let mut writer = LineDelimitedWriter::new(Vec::new());
        writer.write(&batch).and_then(|()| writer.finish()).map_err(|e| damaged(&e))?;
        for line in writer.into_inner().split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            rows.push(serde_json::from_slice(line).map_err(|e| damaged(&e))?);
        }
    }
    Ok(rows)
}

fn rows_at_once(bytes_in_memory: u64) -> usize {
    if bytes_in_memory < LARGE_FILE_BYTES { BATCH_ROWS } else { 1 }
}

/// Bytes of all columns in memory.
///
/// # Errors
/// As [`read`].
pub fn bytes_in_memory(file: Bytes) -> Result<u64, Error> {
    guarded(|| {
        let builder =
            ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| Error::Damaged(e.to_string()))?;
        Ok(in_memory(builder.metadata()))
    })
}

fn in_memory(metadata: &ParquetMetaData) -> u64 {
    let bytes = |bytes: i64| u64::try_from(bytes).unwrap_or(u64::MAX);
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    columns
        // A text that a dictionary holds once is in memory as often as it is there.
        .map(|c| bytes(c.uncompressed_size()).max(c.unencoded_byte_array_data_bytes().map_or(0, bytes)))
        .fold(0, u64::saturating_add)
}

/// The distinct values of the text column `key`.
///
/// # Errors
/// As [`read`].
pub fn keys(file: Bytes, key: &str) -> Result<BTreeSet<String>, Error> {
    guarded(|| keys_inner(file, key))
}

fn keys_inner(file: Bytes, key: &str) -> Result<BTreeSet<String>, Error> {
    let damaged = |e: &dyn std::fmt::Display| Error::Damaged(e.to_string());
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| damaged(&e))?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), [key]);
    let mut keys = BTreeSet::new();
    for batch in builder.with_projection(mask).build().map_err(|e| damaged(&e))? {
        let batch = batch.map_err(|e| damaged(&e))?;
        let column = batch.columns().first().and_then(|c| c.as_string_opt::<i32>());
        keys.extend(column.into_iter().flatten().flatten().map(str::to_owned));
    }
    Ok(keys)
}

/// Tests: the data file of some rows.
#[cfg(test)]
pub(super) fn write<T: Serialize>(table: Table, rows: &[T]) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::new(table)?;
    rows.iter().try_for_each(|row| writer.push(row))?;
    Ok(writer.finish()?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::rows::spans::SpanRow;

    #[test]
    fn a_damaged_file_is_an_error_and_not_a_panic() {
        let rows = vec![SpanRow { trace_id: "ab".into(), ..SpanRow::default() }; 3];
        let file = write(Table::Spans, &rows).unwrap();
        for cut in (0..file.len()).step_by(97) {
            let read = read::<SpanRow>(Bytes::copy_from_slice(&file[..cut]), "trace_id", None);
            assert!(matches!(read, Err(Error::Damaged(_))), "cut at {cut}");
        }
    }

    #[test]
    fn a_row_group_without_the_trace_is_not_read() {
        let rows = vec![SpanRow { trace_id: "ab".into(), ..SpanRow::default() }];
        let file = Bytes::from(write(Table::Spans, &rows).unwrap());
        let of = |id: &str| {
            read::<SpanRow>(file.clone(), "trace_id", Some(&[id.to_owned()].into())).unwrap().len()
        };
        assert_eq!((of("ab"), of("cd")), (1, 0));
        let groups = |id: &str| {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap();
            groups_with(&builder, "trace_id", &[id.to_owned()].into()).unwrap()
        };
        assert_eq!((groups("ab"), groups("cd")), (vec![0], vec![]));
    }

    /// Scenario: many rows have one long name, which a file holds once.
    /// Guarantee: the file counts as large as its rows are in memory, and a large one is read row by row.
    #[test]
    fn a_text_that_repeats_counts_once() {
        let rows = vec![SpanRow { name: "n".repeat(100_000), ..SpanRow::default() }; 50];
        let file = write(Table::Spans, &rows).unwrap();
        assert!(file.len() < 1_000_000);
        let bytes = bytes_in_memory(file.into()).unwrap();
        assert!((5_000_000..5_100_000).contains(&bytes), "{bytes}");
        assert_eq!([bytes, LARGE_FILE_BYTES].map(rows_at_once), [BATCH_ROWS, 1]);
    }
}
