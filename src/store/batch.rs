//! Rows on their way to Arrow: batches that no text overflows.

use std::io;

use arrow::{
    array::RecordBatch,
    json::{ReaderBuilder, reader::Decoder},
};
use serde::Serialize;

use super::{parquet::Error, schema::Table};

/// Rows of one batch; bounds memory.
pub(super) const BATCH_ROWS: usize = 1024;
/// Text of one batch while writing; a larger row stands alone. The texts of a column of a batch have 2 GiB together, and
/// one text may be most of a request, which grows sevenfold as JSON.
const BATCH_TEXT_BYTES: usize = 16 << 20;
/// A row of less text fits any column.
const ROW_TEXT_BYTES: usize = i32::MAX as usize;

/// Rows on their way to batches of [`BATCH_ROWS`] and [`BATCH_TEXT_BYTES`].
pub(super) struct Batches {
    table: Table,
    decoder: Decoder,
    rows: usize,
    text: usize,
    text_max: usize,
    row_text_max: usize,
}

impl Batches {
    /// Nothing yet.
    ///
    /// # Errors
    /// [`Error::Write`] when the columns cannot be written, which none of ours is.
    pub(super) fn new(table: Table) -> Result<Self, Error> {
        Self::with(table, BATCH_TEXT_BYTES, ROW_TEXT_BYTES)
    }

    fn with(table: Table, text_max: usize, row_text_max: usize) -> Result<Self, Error> {
        Ok(Self { table, decoder: decoder(table)?, rows: 0, text: 0, text_max, row_text_max })
    }

    /// Adds a row; a batch when one is full.
    ///
    /// # Errors
    /// [`Error::Write`] when a row does not fit the table.
    pub(super) fn push<T: Serialize>(&mut self, row: &T) -> Result<Option<RecordBatch>, Error> {
        let text = measure(row)?;
        let full = if self.rows > 0 && self.text.saturating_add(text) > self.text_max {
            self.finish()?
        } else {
            None
        };
        self.decoder.serialize(std::slice::from_ref(row)).map_err(|e| failed(&e))?;
        self.rows += 1;
        self.text = self.text.saturating_add(text);
        if full.is_none() && (self.rows >= BATCH_ROWS || self.text >= self.text_max) {
            return self.finish();
        }
        Ok(full)
    }

    /// What is left. A row that no column can hold is left out: it must not keep others from the table for ever.
    ///
    /// # Errors
    /// As [`Batches::push`].
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>, Error> {
        let (rows, text) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.text));
        match self.decoder.flush() {
            Ok(batch) => Ok(batch),
            Err(error) if rows == 1 && text > self.row_text_max => {
                let table = self.table.name();
                tracing::error!(%error, table, bytes = text, "a row is too large for a table, and is left out of it");
                self.decoder = decoder(self.table)?;
                Ok(None)
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

fn decoder(table: Table) -> Result<Decoder, Error> {
    ReaderBuilder::new(table.arrow()).with_batch_size(BATCH_ROWS).build_decoder().map_err(|e| failed(&e))
}

fn failed(error: &dyn std::fmt::Display) -> Error {
    Error::Write(error.to_string())
}

/// Bytes of a row as JSON: no column of it has more text.
fn measure<T: Serialize>(row: &T) -> Result<usize, Error> {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, row).map_err(|e| failed(&e))?;
    Ok(count.0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Rows of each batch that `rows` become.
    fn sizes(mut batches: Batches, rows: &[Value]) -> Result<Vec<usize>, Error> {
        let mut all = Vec::new();
        for row in rows {
            all.extend(batches.push(row)?);
        }
        all.extend(batches.finish()?);
        Ok(all.iter().map(RecordBatch::num_rows).collect())
    }

    fn row(bytes: usize) -> Value {
        json!({"run_id": "r", "text": "\u{1}".repeat(bytes)})
    }

    /// Scenario: rows of text that grows sixfold as JSON, small ones, one over the limit of a batch, small ones.
    /// Guarantee: no batch but that of the one row has more text than the limit; small rows share batches.
    #[test]
    fn the_text_of_a_batch_has_no_end() {
        let rows: Vec<Value> = [10, 10, 10, 10, 200, 10, 10].map(row).into();
        let batches = || Batches::with(Table::Messages, 300, ROW_TEXT_BYTES).unwrap();
        assert_eq!(sizes(batches(), &rows).unwrap(), [3, 1, 1, 2]);
        let many = vec![row(0); BATCH_ROWS + 1];
        assert_eq!(sizes(Batches::new(Table::Messages).unwrap(), &many).unwrap(), [BATCH_ROWS, 1]);
    }

    /// Scenario: among others there is a row that no column can hold, and that is so large that size may be why.
    /// Guarantee: it alone is left out. A row that does not fit for another reason is an error.
    #[test]
    fn a_row_that_cannot_be_written_stops_the_others() {
        let odd = json!({"run_id": "r", "text": "x".repeat(400), "message_index": "no number"});
        let rows = [row(10), odd, row(10)];
        let batches = |row_text_max| Batches::with(Table::Messages, 300, row_text_max).unwrap();
        assert_eq!(sizes(batches(400), &rows).unwrap(), [1, 1]);
        assert!(matches!(sizes(batches(ROW_TEXT_BYTES), &rows), Err(Error::Write(_))));
    }
}
