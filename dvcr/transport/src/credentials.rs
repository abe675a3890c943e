//! Credentials that are made when they are needed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::error::Result;

/// What [`Credentials::renew`] gives.
pub type Renewal<'a> = Pin<Box<dyn Future<Output = Result<bool>> + Send + 'a>>;

/// Makes the `Authorization` header of an object, as often as one is needed: tokens expire.
///
/// It is sent to the scheme, host and port of the object only, whatever redirects say, and only what those answer is
/// shown to it.
pub trait Credentials: fmt::Debug + Send + Sync {
    /// The header for a request that is made now, if there is one.
    fn authorization(&self) -> Option<String>;

    /// The server answered 401 to a request with the header `used`, with these `WWW-Authenticate` headers. Gives whether
    /// the request is worth to be made again: whether [`authorization`](Self::authorization) gives something new now.
    ///
    /// # Errors
    ///
    /// Why there are no credentials, where that says more than the 401 does.
    fn renew<'a>(&'a self, used: Option<&'a str>, challenges: &'a [String]) -> Renewal<'a>;
}
