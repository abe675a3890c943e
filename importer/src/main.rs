//! The importer.
fn main() {}
