//! Assembly against records that a small reader understands, so that what fails here is assembly.

mod assembly;
mod build;
mod captures;
mod properties;
mod quirks;
