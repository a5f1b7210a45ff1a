//! Read-only SQL over one tenant's tables (DataFusion), and Arrow Flight SQL. Behind the cargo feature `sql`.
//!
//! A session sees the five tables of one tenant and nothing else: no DDL, no DML, no `SET`, no file paths, no other
//! tenant. Each table is the rows of its data files at one moment plus the rows of runs that memory holds; a run
//! with records in memory takes all its rows from there (design, section 5, step 10).

pub mod flight;
mod relations;

use std::{path::PathBuf, sync::Arc, time::Duration};

use arrow::{array::RecordBatch, datatypes::SchemaRef, json::ArrayWriter};
use datafusion::{
    common::{
        DataFusionError,
        tree_node::{Transformed, TreeNode},
    },
    execution::{
        SendableRecordBatchStream,
        context::SQLOptions,
        memory_pool::FairSpillPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    physical_plan::{ExecutionPlan, coop::CooperativeExec, execute_stream},
    prelude::{DataFrame, ParquetReadOptions, SessionConfig, SessionContext, col, lit},
};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;
use tokio_util::task::AbortOnDropHandle;

use crate::config::sql::Settings;

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
    /// It needs more memory than is free.
    #[error("the query needs more memory than sql.memory_bytes_max leaves it: {0}; narrow it, or try again")]
    TooLarge(String),
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
            DataFusionError::ResourcesExhausted(_) => Self::TooLarge(error.strip_backtrace()),
            _ => Self::Failed(error.strip_backtrace()),
        }
    }
}

/// Runs queries on its own threads; memory is shared by all of them.
#[derive(Debug)]
pub struct Engine {
    planner: Planner,
    /// `None` once dropped.
    threads: Option<Runtime>,
}

impl Engine {
    /// An engine within the limits of `settings`.
    ///
    /// # Errors
    /// When its threads cannot be started.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let pool = Arc::new(FairSpillPool::new(settings.memory_bytes_max));
        let environment = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        let _ = threads.worker_threads(settings.threads.max(1)).thread_name("sql").enable_time();
        let threads = threads.build().map_err(|error| Error::Failed(error.to_string()))?;
        Ok(Self { planner: Planner { environment, settings: settings.clone() }, threads: Some(threads) })
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
        self.planner.query(relations, text).await
    }

    /// Runs `text` to its end, as JSON: `{columns, rows, truncated}`, a row an object. Ends early with the caller.
    ///
    /// # Errors
    /// As [`Engine::query`], and [`Error::TooLong`].
    pub async fn rows(&self, relations: Vec<Relation>, text: &str) -> Result<Answer, Error> {
        let (planner, text) = (self.planner.clone(), text.to_owned());
        let limit = Duration::from_secs(planner.settings.query_timeout_s);
        let work = async move { planner.collect(relations, &text).await?.print() };
        let threads = self.threads.as_ref().ok_or_else(|| Error::Failed("the engine has ended".into()))?;
        let work = AbortOnDropHandle::new(threads.spawn(work));
        // The caller's clock: that of the engine stands still while all of its threads are busy.
        let answer = tokio::time::timeout(limit, work).await.map_err(|_| Error::TooLong(limit))?;
        answer.map_err(|error| Error::Failed(error.to_string()))?
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A runtime that is dropped among tasks would wait for its own, which is not allowed there.
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

/// What a query gave, in JSON.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// Names of the columns, in order.
    pub columns: Vec<String>,
    /// An array of objects.
    pub rows: Box<RawValue>,
    /// True when a limit on the answer left rows out.
    pub truncated: bool,
}

/// The batches of an answer, within its limits.
struct Collected {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    truncated: bool,
}

impl Collected {
    fn print(self) -> Result<Answer, Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Failed(error.to_string());
        let mut writer = ArrayWriter::new(Vec::new());
        for batch in &self.batches {
            writer.write(batch).map_err(|e| failed(&e))?;
        }
        writer.finish().map_err(|e| failed(&e))?;
        let text = String::from_utf8(writer.into_inner()).map_err(|e| failed(&e))?;
        let text = if text.is_empty() { "[]".to_owned() } else { text };
        let rows = RawValue::from_string(text).map_err(|e| failed(&e))?;
        let columns = self.schema.fields().iter().map(|f| f.name().clone()).collect();
        Ok(Answer { columns, rows, truncated: self.truncated })
    }
}

/// Plans and runs; clones share the memory.
#[derive(Clone, Debug)]
struct Planner {
    environment: Arc<RuntimeEnv>,
    settings: Settings,
}

impl Planner {
    async fn query(&self, relations: Vec<Relation>, text: &str) -> Result<SendableRecordBatchStream, Error> {
        let session = self.session(relations).await?;
        let options =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let frame = session.sql_with_options(text, options).await?;
        let context = Arc::new(frame.task_ctx());
        let plan = interruptible(frame.create_physical_plan().await?)?;
        Ok(execute_stream(plan, context)?)
    }

    async fn collect(&self, relations: Vec<Relation>, text: &str) -> Result<Collected, Error> {
        let mut stream = self.query(relations, text).await?;
        let (mut batches, mut rows, mut bytes) = (Vec::new(), 0, 0);
        let mut truncated = false;
        while let Some(batch) = futures::StreamExt::next(&mut stream).await {
            let batch = batch?;
            let (size, room) = (batch.get_array_memory_size(), self.settings.answer_bytes_max - bytes);
            let fit = if size <= room { batch.num_rows() } else { batch.num_rows() * room / size };
            let kept = fit.min(self.settings.rows_max - rows);
            truncated = kept < batch.num_rows();
            (rows, bytes) = (rows + kept, bytes + size.min(room));
            batches.push(batch.slice(0, kept));
            if truncated {
                break;
            }
        }
        Ok(Collected { schema: stream.schema(), batches, truncated })
    }

    async fn session(&self, relations: Vec<Relation>) -> Result<SessionContext, Error> {
        let mut config = SessionConfig::new().with_information_schema(false);
        config.options_mut().execution.parquet.pushdown_filters = true;
        let session = SessionContext::new_with_config_rt(config, self.environment.clone());
        for relation in relations {
            let name = relation.name;
            let frame = frame(&session, relation).await?;
            let _ = session.register_table(name, frame.into_view())?;
        }
        Ok(session)
    }
}

/// The plan with a place in each operator that makes many rows of few where the query can be ended: without it, an
/// aggregate over a join asks for rows until there are none left, which may take days.
fn interruptible(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
    let wrapped = plan.transform_up(|node| {
        let multiplies = node.children().len() > 1 || node.name().contains("Unnest");
        Ok(if multiplies {
            Transformed::yes(Arc::new(CooperativeExec::new(node)) as _)
        } else {
            Transformed::no(node)
        })
    });
    Ok(wrapped?.data)
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
