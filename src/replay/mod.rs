//! Documents that answer for a run.
