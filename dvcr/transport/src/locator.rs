//! Addresses that are made when they are needed.

use std::fmt;

/// Makes the address of an object, as often as one is needed: a signed address stops working after a while.
///
/// The object keeps its name: errors show [`name`](Self::name) in place of the address.
pub trait Locator: fmt::Debug + Send + Sync {
    /// How people know the object, without credentials: `s3://bucket/key`.
    fn name(&self) -> String;

    /// An address that works from now on. Costs a signature.
    ///
    /// # Errors
    ///
    /// One line that says why there is none.
    fn locate(&self) -> Result<String, String>;

    /// Takes note that a store says the object lies in `region`, which is whatever a server sent. Gives whether
    /// [`locate`](Self::locate) makes another address because of it.
    fn moved(&self, region: &str) -> bool;
}
