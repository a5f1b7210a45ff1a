//! Read-only SQL over one tenant's tables (DataFusion), and Arrow Flight SQL. Behind the cargo feature `sql`.
//!
//! A session sees the five tables of one tenant and nothing else: no DDL, no DML, no `SET`, no file paths, no other
//! tenant. Each table is the rows of its data files in one snapshot plus the rows of runs that memory holds; a run
//! with records in memory takes all its rows from there (design, section 5, step 10).

pub mod flight;
mod relations;

use std::{path::PathBuf, sync::Arc, time::Duration};

use arrow::{array::RecordBatch, datatypes::SchemaRef, json::ArrayWriter};
use datafusion::{
    common::DataFusionError,
    execution::{
        SendableRecordBatchStream,
        context::SQLOptions,
        memory_pool::FairSpillPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::{DataFrame, ParquetReadOptions, SessionConfig, SessionContext, col, lit},
};
use serde_json::{Value, json};

/// Rows of one answer in JSON; more are cut, and the answer says so.
pub const ROWS_MAX: usize = 10_000;

/// What a query may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory of all running queries together.
    pub memory_bytes_max: usize,
    /// How long one query may run.
    pub query_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_bytes_max: 512 << 20, query_time_max: Duration::from_secs(30) }
    }
}

/// One table as a query sees it.
#[derive(Clone, Debug)]
pub struct Relation {
    /// The SQL name.
    pub name: &'static str,
    /// Columns of files and batches alike.
    pub schema: SchemaRef,
    /// Data files of the snapshot.
    pub files: Vec<PathBuf>,
    /// Column and values whose rows are taken from `hot` only.
    pub replaced: Option<(&'static str, Vec<String>)>,
    /// Rows that are not in the files yet.
    pub hot: Vec<RecordBatch>,
}

/// A query was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a statement that may run here, or not SQL.
    #[error("refused: {0}; only SELECT over spans, run_steps, messages, runs and checkpoints may run")]
    Refused(String),
    /// The engine stopped it.
    #[error("the query failed: {0}")]
    Failed(String),
    /// It ran into its time limit.
    #[error("the query ran longer than {0:?}; narrow it, or read the tables with an engine of your own")]
    TooLong(Duration),
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        match error.find_root() {
            DataFusionError::Plan(_) | DataFusionError::SQL(..) | DataFusionError::SchemaError(..) => {
                Self::Refused(error.strip_backtrace())
            }
            _ => Self::Failed(error.strip_backtrace()),
        }
    }
}

/// Runs queries; memory is shared by all of them.
#[derive(Debug)]
pub struct Engine {
    runtime: Arc<RuntimeEnv>,
    limits: Limits,
}

impl Engine {
    /// An engine within `limits`.
    ///
    /// # Errors
    /// When the runtime cannot be built.
    pub fn new(limits: Limits) -> Result<Self, Error> {
        let pool = Arc::new(FairSpillPool::new(limits.memory_bytes_max));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        Ok(Self { runtime, limits })
    }

    /// Plans `text` over `relations`; rows come as the stream is read.
    ///
    /// # Errors
    /// [`Error::Refused`] for anything but a query over these relations; [`Error::Failed`] when planning fails.
    pub async fn query(
        &self,
        relations: Vec<Relation>,
        text: &str,
    ) -> Result<SendableRecordBatchStream, Error> {
        let session = self.session(relations).await?;
        let options =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let frame = session.sql_with_options(text, options).await?;
        Ok(frame.execute_stream().await?)
    }

    /// Runs `text` to its end; at most `rows_max` rows are kept.
    ///
    /// # Errors
    /// As [`Engine::query`], and [`Error::TooLong`].
    pub async fn collect(
        &self,
        relations: Vec<Relation>,
        text: &str,
        rows_max: usize,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), Error> {
        let run = async {
            let mut stream = self.query(relations, text).await?;
            let schema = stream.schema();
            let (mut batches, mut rows) = (Vec::new(), 0);
            while let Some(batch) = futures::StreamExt::next(&mut stream).await {
                let batch = batch?;
                let kept = batch.num_rows().min(rows_max - rows);
                rows += kept;
                batches.push(batch.slice(0, kept));
                if rows >= rows_max {
                    break;
                }
            }
            Ok((schema, batches))
        };
        tokio::time::timeout(self.limits.query_time_max, run)
            .await
            .map_err(|_| Error::TooLong(self.limits.query_time_max))?
    }

    /// Runs `text` to its end, as JSON: `{columns, rows, truncated}`, a row an object. At most [`ROWS_MAX`] rows.
    ///
    /// # Errors
    /// As [`Engine::collect`].
    pub async fn rows(&self, relations: Vec<Relation>, text: &str) -> Result<Value, Error> {
        let (schema, batches) = self.collect(relations, text, ROWS_MAX + 1).await?;
        let failed = |error: &dyn std::fmt::Display| Error::Failed(error.to_string());
        let mut writer = ArrayWriter::new(Vec::new());
        for batch in &batches {
            writer.write(batch).map_err(|e| failed(&e))?;
        }
        writer.finish().map_err(|e| failed(&e))?;
        let bytes = writer.into_inner();
        let mut rows: Vec<Value> = if bytes.is_empty() {
            Vec::new()
        } else {
            serde_json::from_slice(&bytes).map_err(|e| failed(&e))?
        };
        let truncated = rows.len() > ROWS_MAX;
        rows.truncate(ROWS_MAX);
        let columns: Vec<&String> = schema.fields().iter().map(|f| f.name()).collect();
        Ok(json!({"columns": columns, "rows": rows, "truncated": truncated}))
    }

    async fn session(&self, relations: Vec<Relation>) -> Result<SessionContext, Error> {
        let mut config = SessionConfig::new().with_information_schema(false);
        config.options_mut().execution.parquet.pushdown_filters = true;
        let session = SessionContext::new_with_config_rt(config, self.runtime.clone());
        for relation in relations {
            let name = relation.name;
            let frame = frame(&session, relation).await?;
            let _ = session.register_table(name, frame.into_view())?;
        }
        Ok(session)
    }
}

/// Rows of the files without the replaced ones, and the hot rows.
async fn frame(session: &SessionContext, relation: Relation) -> Result<DataFrame, Error> {
    let hot = match relation.hot.is_empty() {
        true => vec![RecordBatch::new_empty(relation.schema.clone())],
        false => relation.hot,
    };
    let hot = session.read_batches(hot)?;
    if relation.files.is_empty() {
        return Ok(hot);
    }
    let paths: Vec<String> = relation.files.iter().map(|f| f.to_string_lossy().into_owned()).collect();
    let mut stored =
        session.read_parquet(paths, ParquetReadOptions::default().schema(&relation.schema)).await?;
    if let Some((column, values)) = relation.replaced.filter(|(_, v)| !v.is_empty()) {
        let values = values.into_iter().map(lit).collect();
        stored = stored.filter(col(column).in_list(values, true))?;
    }
    Ok(stored.union(hot)?)
}

#[cfg(test)]
mod tests;
