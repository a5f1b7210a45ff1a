//! Data files: rows to Parquet and back.

use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc};

use arrow::{
    array::AsArray,
    json::{ReaderBuilder, writer::LineDelimitedWriter},
};
use bytes::Bytes;
use parquet::{
    arrow::{
        ArrowWriter, ProjectionMask,
        arrow_reader::{ArrowPredicateFn, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowFilter},
    },
    basic::{Compression, ZstdLevel},
    file::{
        metadata::PageIndexPolicy,
        properties::{EnabledStatistics, WriterProperties},
    },
    schema::types::ColumnPath,
};
use serde::{Serialize, de::DeserializeOwned};

use super::schema::Table;

/// Rows of one batch while reading; bounds memory.
const BATCH_ROWS: usize = 1024;
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

/// The data file of `rows`, in their order.
///
/// # Errors
/// [`Error::Write`] when a row does not fit the table.
pub fn write<T: Serialize>(table: Table, rows: &[T]) -> Result<Vec<u8>, Error> {
    let failed = |e: &dyn std::fmt::Display| Error::Write(e.to_string());
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).map_err(|e| failed(&e))?))
        .set_max_row_group_row_count(Some(65_536))
        .set_statistics_enabled(EnabledStatistics::Page);
    let schema = table.arrow();
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
    properties = properties.set_column_bloom_filter_enabled(ColumnPath::from(table.key()), true);
    let mut writer =
        ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties.build())).map_err(|e| failed(&e))?;
    let mut decoder =
        ReaderBuilder::new(schema).with_batch_size(BATCH_ROWS).build_decoder().map_err(|e| failed(&e))?;
    for chunk in rows.chunks(BATCH_ROWS) {
        decoder.serialize(chunk).map_err(|e| failed(&e))?;
        if let Some(batch) = decoder.flush().map_err(|e| failed(&e))? {
            writer.write(&batch).map_err(|e| failed(&e))?;
        }
    }
    writer.into_inner().map_err(|e| failed(&e))
}

/// Rows as batches in memory, with the columns of the table's files.
///
/// # Errors
/// [`Error::Write`] when a row does not fit the table.
#[cfg(feature = "sql")]
pub fn batches<T: Serialize>(table: Table, rows: &[T]) -> Result<Vec<arrow::array::RecordBatch>, Error> {
    let failed = |e: arrow::error::ArrowError| Error::Write(e.to_string());
    let mut decoder =
        ReaderBuilder::new(table.arrow()).with_batch_size(BATCH_ROWS).build_decoder().map_err(failed)?;
    let mut batches = Vec::new();
    for chunk in rows.chunks(BATCH_ROWS) {
        decoder.serialize(chunk).map_err(failed)?;
        batches.extend(decoder.flush().map_err(failed)?);
    }
    Ok(batches)
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
    let read = AssertUnwindSafe(|| read_inner(file, key, keys));
    std::panic::catch_unwind(read).unwrap_or_else(|_| Err(Error::Damaged("the decoder gave up".into())))
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
    let mut rows = Vec::new();
    for batch in builder.with_batch_size(BATCH_ROWS).build().map_err(|e| damaged(&e))? {
        let batch = Arc::new(batch.map_err(|e| damaged(&e))?);
        let mut writer = LineDelimitedWriter::new(Vec::new());
        writer.write(&batch).and_then(|()| writer.finish()).map_err(|e| damaged(&e))?;
        for line in writer.into_inner().split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            rows.push(serde_json::from_slice(line).map_err(|e| damaged(&e))?);
        }
    }
    Ok(rows)
}

/// The distinct values of the text column `key`.
///
/// # Errors
/// As [`read`].
pub fn keys(file: Bytes, key: &str) -> Result<BTreeSet<String>, Error> {
    let read = AssertUnwindSafe(|| keys_inner(file, key));
    std::panic::catch_unwind(read).unwrap_or_else(|_| Err(Error::Damaged("the decoder gave up".into())))
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
}
