//! What the first answer said about an object.

use crate::address::Address;
use crate::answer::Coding;
use crate::resource::Response;
use crate::validator::Validator;

/// What the first answer said about an object, and what it proved.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Object {
    /// Length of the whole as it is transferred, where the server says it.
    pub len: Option<u64>,
    /// Proof of which object it is, if there is one.
    pub validator: Option<Validator>,
    /// Encodings that the server applied unasked, in order. Lengths and offsets are those of the encoded bytes.
    pub codings: Vec<Coding>,
    /// The `Content-Type` header: a hint.
    pub content_type: Option<String>,
    /// Where redirects led.
    pub final_url: Address,
    /// Whether parts of it can be read and proved to be parts of it: a range was answered with one, by a server that
    /// says how long the whole is and which object it is of.
    pub ranges: bool,
}

impl Object {
    pub(crate) fn of(response: &Response) -> Self {
        Self {
            len: response.len,
            validator: response.validator.clone(),
            codings: response.codings.clone(),
            content_type: response.content_type.clone(),
            final_url: response.final_url.clone(),
            ranges: response.range.is_some() && response.len.is_some() && response.validator.is_some(),
        }
    }
}
