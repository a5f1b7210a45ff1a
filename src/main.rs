//! The `spanreel` binary.

fn main() {}
