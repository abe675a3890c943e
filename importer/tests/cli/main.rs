//! The program as people and scripts run it: exit codes, standard error, reports, and what is left where it failed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, that is the failure")]

mod block;
mod checksums;
mod container;
mod copy;
mod encodings;
mod exit_codes;
mod help;
mod identity;
mod inspect;
mod interrupt;
mod kill;
mod layers;
mod object_store;
mod pages;
mod program;
mod qemu_is_wrong;
mod registry;
mod report;
mod resume;
mod retries;
mod rows;
