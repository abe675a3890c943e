//! The page for people, in a real browser. What it looks like is left in the folder of artefacts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, that is the failure")]

mod breaks;
mod gate;
mod looks;
mod people;
mod world;
