mod build;
mod corpus;
mod hostile;
mod plan;
mod qemu;
mod refusals;
mod sparse;
mod stream;

use super::*;
use crate::testing::{Order, read};

/// Opens and assembles an image, with its descriptor in the head.
fn assemble(file: &[u8], order: Order) -> Result<Vec<u8>> {
    Ok(read(&mut open(file, Some(file.len() as u64))?, file, order, true)?.bytes())
}

/// The same where the length of the file is never known.
fn assemble_unsized(file: &[u8]) -> Result<Vec<u8>> {
    Ok(read(&mut open(file, None)?, file, Order::Forward, false)?.bytes())
}

fn open(file: &[u8], len: Option<u64>) -> Result<Vmdk> {
    Vmdk::open(&file[..file.len().min(64 << 10)], len)
}

#[track_caller]
fn refused(file: &[u8], kind: Kind) -> String {
    let error = assemble(file, Order::Forward).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().starts_with("vmdk: ") || error.kind() == Kind::Truncated, "{error}");
    error.to_string()
}
