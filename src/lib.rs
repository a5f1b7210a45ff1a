//! spanreel turns the OpenTelemetry GenAI spans that agents already emit into ordered, replayable **runs**: Delta
//! tables (Parquet) per tenant, a verdict on each run that says how far its record can be trusted, and documents
//! that evaluation jobs replay.
//!
//! # Architecture
//!
//! ```text
//!   exporters, collectors                                   people, jobs, engines
//!         | OTLP (gRPC, HTTP)                                  ^            ^
//!   +-----v-------------------+                         +------+-----+      | DuckDB, Polars, Spark
//!   | otlp   bytes: admit,    |                         | cli, api   |      |
//!   |        scan, limits     |                         +------^-----+      |
//!   +-----+-------------------+                                | documents  |
//!         | append, then ack                            +------+-----+      |
//!   +-----v-------------------+                         | replay     |      |
//!   | wal    frames, fsync    |                         +------^-----+      |
//!   +-----+-------------------+                                | Run        |
//!         | durable frames, in order                           |            |
//!   +-----v------------------------------------------------+---+---+        |
//!   | store  hot set -> flush -> `spans` -> derive -> runs |  read |        |
//!   +-----+------------------------------^-----------------+-------+        |
//!         | records of a run             | runs            | commits        |
//!   +-----v-------------------+   +------+-----+    +------v----------------+-----+
//!   | genai  span -> meaning  +---> run        |    | spans run_steps messages    |
//!   |        (dialects)       |   | assemble   |    | runs checkpoints (Delta)    |
//!   +-------------------------+   +------------+    +-----------------------------+
//! ```
//!
//! Code map, in the order data meets it. **A module uses only modules above it**; a test holds it to that.
//!
//! | module | what it knows |
//! |---|---|
//! | [`config`], [`tenant`], [`telemetry`], [`clock`] | settings, the one tenant parser, metric names, time |
//! | [`wal`] | frames on disk; nothing of spans |
//! | [`otlp`] | the wire: limits, decoding, JSON mapping, answers; nothing of GenAI |
//! | [`genai`] | what a span means: one small file a dialect; no I/O |
//! | [`run`] | steps, order, verdict of a set of records; no I/O, no clock |
//! | [`store`] | the tables and the protocol that keeps them exact; nothing of dialects |
//! | [`replay`] | documents that answer for a run |
//! | [`access`] | the one door: key in, tenant and role out |
//! | [`api`], [`server`], [`cli`] | surfaces |
//!
//! # Invariants
//!
//! 1. **Records are the truth.** `spans` holds every accepted record losslessly; the other tables are what
//!    [`run::assemble`] says of them, and can be rebuilt.
//! 2. **Assembly is a function of a set.** Any order, split, duplication or lateness of the same records gives equal
//!    runs. There is no I/O, no clock and no panic in [`genai`] and [`run`].
//! 3. **Nothing is hidden.** An orphan, a duplicate, a late or unparsable record still shows, with a reason or a note.
//! 4. **Ack means durable.** A success is sent only after [`wal`] said that the frame is on disk. Pressure on capacity
//!    is refused with retry advice, never answered with a partial success.
//! 5. **Exactly once to the reader**, whatever was retried, crashed, or committed with an unknown outcome.
//! 6. **A tenant comes only from a credential**; only [`tenant`] builds a [`tenant::TenantId`].
//! 7. **Nothing here opens an outbound connection** on its own. A URL found in a span is never fetched.
//! 8. **One truth for a model call.** Nested reports of one call give one step; tokens are counted once.
//! 9. **Bytes first, counts second, structs last** on network input; every buffer has a limit with a name.
//! 10. **Lossless.** A run exported as OTLP has the spans, attributes, events, links and status that were received.

// In the order data meets them; a module uses only those above it.
pub mod config;
pub mod tenant;
pub mod telemetry;
pub mod clock;
pub mod wal;
pub mod otlp;
pub mod genai;
pub mod run;
pub mod store;
pub mod replay;
pub mod access;
pub mod api;
pub mod server;
pub mod cli;
