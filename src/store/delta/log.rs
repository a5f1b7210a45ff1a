//! State of a table from its log, and the commit (design, section 5, steps 2 and 3).

use std::{collections::BTreeMap, io};

use super::actions::{self, Action, Add, CommitInfo, Txn};
use crate::store::object::{Objects, Put};

/// How often one commit is tried against other writers before it is given up.
const TRIES_MAX: u32 = 64;

/// The log could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk.
    #[error("cannot reach the log of table {table}: {source}; check the disk and its free space")]
    Io {
        /// The table's folder.
        table: String,
        /// Why.
        source: io::Error,
    },
    /// A commit file is damaged.
    #[error("commit {version} of table {table} cannot be read: {source}; restore it from a backup")]
    Damaged {
        /// The table's folder.
        table: String,
        /// The version.
        version: u64,
        /// Why.
        source: serde_json::Error,
    },
    /// A file that the commit replaces is gone.
    #[error("another writer replaced {path} of table {table}; plan again from the newest version")]
    Conflict {
        /// The table's folder.
        table: String,
        /// The data file.
        path: String,
    },
    /// Others always came first.
    #[error("table {table} has too many writers; try again later")]
    Busy {
        /// The table's folder.
        table: String,
    },
}

/// A table at one version.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// `None` when there is no table yet.
    pub version: Option<u64>,
    /// Live data files by path.
    pub files: BTreeMap<String, Add>,
    /// How far each application has got.
    pub txns: BTreeMap<String, i64>,
}

impl State {
    fn apply(&mut self, version: u64, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Add(add) => {
                    let _ = self.files.insert(add.path.clone(), add);
                }
                Action::Remove(remove) => {
                    let _ = self.files.remove(&remove.path);
                }
                Action::Txn(txn) => {
                    let _ = self.txns.insert(txn.app_id, txn.version);
                }
                Action::CommitInfo(_) | Action::Protocol(_) | Action::MetaData(_) => {}
            }
        }
        self.version = Some(version);
    }
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is this version.
    Committed(u64),
    /// The log says that it was done before; nothing was written.
    AlreadyIn,
}

/// The log of one table.
#[derive(Clone, Debug)]
pub struct Log {
    objects: Objects,
    table: String,
}

impl Log {
    /// The log of the table in `table`, a folder of `objects`.
    pub fn new(objects: Objects, table: impl Into<String>) -> Self {
        Self { objects, table: table.into() }
    }

    /// Reads `state` on to the head of the log.
    ///
    /// # Errors
    /// When a commit cannot be read.
    pub fn advance(&self, state: &mut State) -> Result<(), Error> {
        loop {
            let next = state.version.map_or(0, |v| v + 1);
            let Some(actions) = self.entry(next)? else { return Ok(()) };
            state.apply(next, actions);
        }
    }

    /// The table up to `version` and no further.
    ///
    /// # Errors
    /// When a commit cannot be read.
    pub fn at(&self, version: u64) -> Result<State, Error> {
        let mut state = State::default();
        for next in 0..=version {
            let Some(actions) = self.entry(next)? else { break };
            state.apply(next, actions);
        }
        Ok(state)
    }

    /// Commits `actions`; `state` is at the head afterwards.
    ///
    /// `once`, when given, is written with them, and decides whether they are in already. Version 0 is tried when there
    /// is no table. A file that `actions` remove must be live in every version that they are tried on.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it is not; the rest leaves the outcome unknown, and the same call with the same
    /// `commit_id` and `once` settles it. No file that `actions` add may be deleted before.
    pub fn commit(
        &self,
        state: &mut State,
        commit_id: &str,
        once: Option<&Txn>,
        actions: &[Action],
        now_ms: i64,
    ) -> Result<Outcome, Error> {
        let info = CommitInfo {
            timestamp: now_ms,
            operation: if state.version.is_none() { "CREATE TABLE" } else { "WRITE" }.into(),
            commit_id: commit_id.into(),
        };
        let mut all = vec![Action::CommitInfo(info)];
        all.extend(once.cloned().map(Action::Txn));
        all.extend_from_slice(actions);
        for _ in 0..TRIES_MAX {
            self.advance(state)?;
            if let Some(once) = once
                && state.txns.get(&once.app_id).is_some_and(|done| *done >= once.version)
            {
                return Ok(Outcome::AlreadyIn);
            }
            for action in actions {
                if let Action::Remove(remove) = action
                    && !state.files.contains_key(&remove.path)
                {
                    return Err(Error::Conflict { table: self.table.clone(), path: remove.path.clone() });
                }
            }
            let next = state.version.map_or(0, |v| v + 1);
            let bytes = actions::print(&all).map_err(|source| self.damaged(next, source))?;
            match self.objects.put_if_absent(&self.name(next), &bytes) {
                Ok(Put::Done) => {
                    state.apply(next, all);
                    return Ok(Outcome::Committed(next));
                }
                // Whose it is can only be told by reading it: a put may have landed although it was reported failed.
                Ok(Put::Exists) | Err(_) => match self.entry(next)? {
                    Some(found) if is_ours(&found, commit_id) => {
                        state.apply(next, found);
                        return Ok(Outcome::Committed(next));
                    }
                    Some(_) | None => {}
                },
            }
        }
        Err(Error::Busy { table: self.table.clone() })
    }

    /// The actions of one version, or `None` when it does not exist.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn entry(&self, version: u64) -> Result<Option<Vec<Action>>, Error> {
        let read = self.objects.read(&self.name(version));
        let bytes = read.map_err(|source| Error::Io { table: self.table.clone(), source })?;
        bytes.map(|b| actions::parse(&b).map_err(|source| self.damaged(version, source))).transpose()
    }

    fn name(&self, version: u64) -> String {
        format!("{}/_delta_log/{version:020}.json", self.table)
    }

    fn damaged(&self, version: u64, source: serde_json::Error) -> Error {
        Error::Damaged { table: self.table.clone(), version, source }
    }
}

fn is_ours(actions: &[Action], commit_id: &str) -> bool {
    actions.iter().any(|a| matches!(a, Action::CommitInfo(info) if info.commit_id == commit_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::delta::actions::Remove;

    fn add(path: &str) -> Action {
        Action::Add(Add {
            path: path.into(),
            partition_values: BTreeMap::new(),
            size: 1,
            modification_time: 0,
            data_change: true,
            stats: None,
        })
    }

    #[test]
    fn a_repeated_commit_is_not_applied_twice() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::new(Objects::new(dir.path()), "t");
        let txn = Txn { app_id: "wal/a".into(), version: 7 };
        let mut state = State::default();
        assert_eq!(log.commit(&mut state, "c1", Some(&txn), &[add("x")], 0).unwrap(), Outcome::Committed(0));
        let mut fresh = State::default();
        assert_eq!(log.commit(&mut fresh, "c2", Some(&txn), &[add("y")], 0).unwrap(), Outcome::AlreadyIn);
        assert_eq!(fresh.files.keys().collect::<Vec<_>>(), ["x"]);
    }

    #[test]
    fn two_writers_that_replace_one_file_do_not_both_win() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::new(Objects::new(dir.path()), "t");
        let mut first = State::default();
        let _ = log.commit(&mut first, "c1", None, &[add("x")], 0).unwrap();
        let mut second = first.clone();
        let gone = Action::Remove(Remove { path: "x".into(), deletion_timestamp: None, data_change: true });
        let _ = log.commit(&mut first, "c2", None, &[gone.clone(), add("y")], 0).unwrap();
        let lost = log.commit(&mut second, "c3", None, &[gone, add("z")], 0);
        assert!(matches!(lost, Err(Error::Conflict { .. })), "{lost:?}");
        assert_eq!(second.files.keys().collect::<Vec<_>>(), ["y"]);
    }
}
