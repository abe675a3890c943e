//! Ranges as asked and as answered.

use std::fmt;
use std::ops::{Range, RangeFrom};

use crate::error::{Error, Kind, Result};

/// Bytes to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last one, or all that follow.
    pub end: Option<u64>,
}

/// Bytes that came, from a `Content-Range` header (RFC 9110, 14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last one; more than `start`.
    pub end: u64,
    /// Length of the whole object, where the server knows it; not less than `end`.
    pub total: Option<u64>,
}

impl From<Range<u64>> for ByteRange {
    fn from(range: Range<u64>) -> Self {
        Self { start: range.start, end: Some(range.end) }
    }
}

impl From<RangeFrom<u64>> for ByteRange {
    fn from(range: RangeFrom<u64>) -> Self {
        Self { start: range.start, end: None }
    }
}

impl ByteRange {
    /// The `Range` header.
    pub(crate) fn header(&self) -> Result<String> {
        match self.end {
            None => Ok(format!("bytes={}-", self.start)),
            Some(end) if end > self.start => Ok(format!("bytes={}-{}", self.start, end - 1)),
            Some(end) => {
                let message = format!("a range from {} to {end} has no bytes to ask for", self.start);
                Err(Error::new(Kind::Usage, message))
            }
        }
    }

    /// Whether `answer` is the asked range, or its first part: a server may send less (RFC 9110, 15.3.7).
    pub(crate) fn accepts(&self, answer: &ContentRange) -> bool {
        answer.start == self.start && self.end.is_none_or(|end| answer.end <= end)
    }
}

impl ContentRange {
    /// Parses `bytes 0-99/1234` or `bytes 0-99/*`, strictly.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (unit, text) = text.split_once(' ')?;
        let (range, total) = text.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
        let total = if total == "*" { None } else { Some(number(total)?) };
        let sound = unit.eq_ignore_ascii_case("bytes") && start < end && total.is_none_or(|total| end <= total);
        sound.then_some(Self { start, end, total })
    }

    /// Parses `bytes */1234`, which a `416` may carry.
    pub(crate) fn unsatisfied(text: &str) -> Option<u64> {
        let (unit, text) = text.split_once(' ')?;
        number(text.strip_prefix("*/")?).filter(|_| unit.eq_ignore_ascii_case("bytes"))
    }

    /// How many bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            Some(end) => write!(f, "bytes {} to {end}", self.start),
            None => write!(f, "bytes from {}", self.start),
        }
    }
}

impl fmt::Display for ContentRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {} to {}", self.start, self.end)
    }
}

/// Digits only; `u64::from_str` would take a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_content_range_is_read() {
        let range = |start, end, total| Some(ContentRange { start, end, total });
        assert_eq!(ContentRange::parse("bytes 0-0/1"), range(0, 1, Some(1)));
        assert_eq!(ContentRange::parse("bytes 100-199/1000"), range(100, 200, Some(1000)));
        assert_eq!(ContentRange::parse("Bytes 100-199/*"), range(100, 200, None));
        assert_eq!(ContentRange::unsatisfied("bytes */0"), Some(0));
    }

    #[test]
    fn an_unsound_content_range_is_not() {
        let unsound = [
            "",
            "bytes",
            "bytes 0-9",
            "bytes 0/10",
            "bytes 9-0/10",
            "bytes 0-10/10",
            "bytes +0-9/10",
            "bytes 0- 9/10",
            "bytes -9/10",
            "bytes 0-9/",
            "bytes=0-9/10",
            "items 0-9/10",
            "bytes 0-18446744073709551615/*",
            "bytes 0-99999999999999999999/*",
            "bytes */10",
        ];
        for text in unsound {
            assert_eq!(ContentRange::parse(text), None, "{text}");
        }
        for text in ["bytes */", "bytes */x", "bytes 0-1/2", "*/2"] {
            assert_eq!(ContentRange::unsatisfied(text), None, "{text}");
        }
    }

    #[test]
    fn an_empty_range_can_not_be_asked() {
        assert_eq!(ByteRange::from(5..6).header().unwrap(), "bytes=5-5");
        assert_eq!(ByteRange::from(5..).header().unwrap(), "bytes=5-");
        assert_eq!(ByteRange::from(5..5).header().unwrap_err().kind(), Kind::Usage);
        assert_eq!(ByteRange { start: 6, end: Some(5) }.header().unwrap_err().kind(), Kind::Usage);
    }
}
