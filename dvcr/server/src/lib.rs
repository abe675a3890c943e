//! An OCI registry on a file system: the distribution specification 1.1 whole, crash-safe, with garbage collection that
//! stops nobody.
//!
//! A [`Store`] is a folder; a [`Server`] serves it.
//!
//! ```no_run
//! # async fn example() -> dvcr::Result<()> {
//! use dvcr::{Config, Limits, Server, Store};
//!
//! let store = Store::create("dvcr-data".as_ref(), Limits::default())?;
//! let server = Server::bind(store, Config::default()).await?;
//! println!("listening on {}", server.address());
//! server.run(std::future::pending()).await
//! # }
//! ```
//!
//! Costs: a push is hashed once, while it is written; a pull is sent by the kernel out of the page cache, or with TLS read
//! into buffers that are used again.
//! Nothing is read at the start, whatever the store holds. Memory is bounded by the number of connections, and all pulls
//! together share one budget.

#![forbid(unsafe_code)]

mod api;
mod auth;
mod body;
mod direct;
mod error;
mod intake;
mod metrics;
mod push;
mod server;
pub mod store;
mod stream;
mod tls;
mod watched;

pub use auth::{Access, TokenRules};
pub use error::{Error, Kind, Result};
pub use server::{Config, Server};
pub use store::gc::{Keep, Options, Outcome};
pub use store::{Limits, Store};
