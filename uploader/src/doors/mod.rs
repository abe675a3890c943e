//! The ways to send an image: a file for each kind of client.

pub mod cdi;
pub mod raw;
pub mod tus;
