//! The file in a form.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};

use super::{Event, Form, Malformed};

/// The body of a form, as the content of its part named `file` alone. Other parts are passed over. It ends well only when
/// the form was whole and had that part, once.
pub struct FilePart<B> {
    body: B,
    form: Form,
    inside: bool,
    seen: bool,
    malformed: Option<Malformed>,
}

/// The body could not be read to its end: the connection broke, or [`FilePart::malformed`] says what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the form broke off")
    }
}

impl std::error::Error for Broken {}

impl<B> FilePart<B> {
    /// The file in this body, which is a form.
    #[must_use]
    pub fn new(body: B, form: Form) -> Self {
        Self { body, form, inside: false, seen: false, malformed: None }
    }

    /// What is wrong with the form.
    #[must_use]
    pub fn malformed(&self) -> Option<Malformed> {
        self.malformed
    }

    /// The body as it is.
    pub fn into_inner(self) -> B {
        self.body
    }

    /// What came so far of the file, as far as it is of use to anybody.
    fn step(&mut self) -> Result<Option<Bytes>, Malformed> {
        while let Some(event) = self.form.event()? {
            match event {
                Event::Head(head) if head.name == FIELD => {
                    if self.seen {
                        return Err(Malformed("it has two parts named file"));
                    }
                    if head.encoded {
                        return Err(Malformed("its file is encoded: send it as it is, in binary"));
                    }
                    (self.inside, self.seen) = (true, true);
                }
                Event::Content(bytes) if self.inside => return Ok(Some(bytes)),
                Event::End => self.inside = false,
                Event::Head(_) | Event::Content(_) | Event::Over => {}
            }
        }
        Ok(None)
    }

    fn fail(&mut self, why: Malformed) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.malformed = Some(why);
        Poll::Ready(Some(Err(Broken)))
    }

    /// Why a body that ends here ends well, or not.
    fn end(&self) -> Result<(), Malformed> {
        match (self.form.is_over(), self.seen) {
            (false, _) => Err(Malformed("it ends before its last boundary")),
            (true, false) => Err(Malformed("it has no part named file")),
            (true, true) => Ok(()),
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for FilePart<B> {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        if this.malformed.is_some() {
            return Poll::Ready(Some(Err(Broken)));
        }
        loop {
            match this.step() {
                Ok(Some(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Ok(None) => {}
                Err(why) => return this.fail(why),
            }
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    let inside = this.inside;
                    if let Ok(bytes) = frame.into_data() {
                        this.form.feed(bytes);
                    }
                    if !inside {
                        // Something came, though nothing of the file: whoever waits shall know.
                        return Poll::Ready(Some(Ok(Frame::data(Bytes::new()))));
                    }
                }
                Some(Err(_)) => return Poll::Ready(Some(Err(Broken))),
                None => {
                    return match this.end() {
                        Ok(()) => Poll::Ready(None),
                        Err(why) => this.fail(why),
                    };
                }
            }
        }
    }
}

/// As CDI's clients name it.
const FIELD: &str = "file";
