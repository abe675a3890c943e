//! PAX extension headers: records of `length key=value`.

use super::sparse::{self, Map};
use crate::{Error, Kind, Result};

/// What the PAX headers in front of an entry say about it.
#[derive(Default)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    sparse: Option<SparseKeys>,
}

/// The keys of the GNU sparse formats 0.0, 0.1 and 1.0.
#[derive(Default)]
struct SparseKeys {
    major: Option<u64>,
    minor: Option<u64>,
    name: Option<Vec<u8>>,
    real_size: Option<u64>,
    /// Offsets and lengths in turn.
    numbers: Vec<u64>,
}

impl Pax {
    pub(super) fn is_empty(&self) -> bool {
        self.path.is_none() && self.link.is_none() && self.size.is_none() && self.sparse.is_none()
    }

    /// Reads a header.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<()> {
        records(bytes, |key, value| self.record(key, value))
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        // POSIX: an empty value takes a key back.
        let text = || (!value.is_empty()).then(|| value.to_vec());
        match key {
            b"path" => self.path = text(),
            b"linkpath" => self.link = text(),
            b"size" => self.size = Some(decimal(key, value)?),
            b"SCHILY.filetype" if value == b"sparse" => {
                return Err(Error::new(
                    Kind::Unsupported,
                    "it has a sparse file in star's own format; repack it with GNU tar",
                ));
            }
            _ => {
                if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
                    self.sparse.get_or_insert_default().record(key, value)?;
                }
            }
        }
        Ok(())
    }

    /// What they say about holes.
    pub(super) fn sparse(self) -> Result<Option<sparse::Pax>> {
        let Some(keys) = self.sparse else { return Ok(None) };
        let size = keys
            .real_size
            .ok_or_else(|| Error::new(Kind::Corrupt, "a sparse file has no size; the archive is damaged"))?;
        match (keys.major.unwrap_or(0), keys.minor.unwrap_or(0)) {
            (0, _) => {
                let mut map = Map::new(size);
                let (runs, rest) = keys.numbers.as_chunks();
                if !rest.is_empty() {
                    return Err(Error::new(Kind::Corrupt, "the map of a sparse file has an offset without a length"));
                }
                for &[at, len] in runs {
                    map.push(at, len)?;
                }
                Ok(Some(sparse::Pax::Map { name: keys.name, map }))
            }
            (1, 0) => Ok(Some(sparse::Pax::InData { name: keys.name, size })),
            (major, minor) => Err(Error::new(
                Kind::Unsupported,
                format!("sparse format {major}.{minor} is not known; repack it with GNU tar"),
            )),
        }
    }
}

impl SparseKeys {
    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match key {
            b"major" => self.major = Some(decimal(key, value)?),
            b"minor" => self.minor = Some(decimal(key, value)?),
            b"name" => self.name = (!value.is_empty()).then(|| value.to_vec()),
            b"realsize" | b"size" => self.real_size = Some(decimal(key, value)?),
            b"offset" | b"numbytes" => {
                // They come in pairs, the offset first.
                if (key == b"offset") != self.numbers.len().is_multiple_of(2) {
                    return Err(Error::new(Kind::Corrupt, "the map of a sparse file is out of order"));
                }
                if self.numbers.len() > 2 * sparse::MAX_RUNS {
                    return Err(Error::new(Kind::Oversized, "the map of a sparse file is too long"));
                }
                self.numbers.push(decimal(key, value)?);
            }
            b"map" => {
                self.numbers.clear();
                if !value.is_empty() {
                    for number in value.split(|&byte| byte == b',') {
                        self.numbers.push(decimal(key, number)?);
                    }
                }
            }
            // numblocks says what the map itself shows.
            _ => {}
        }
        Ok(())
    }
}

/// Reads a global header, which must not change what an entry is: nobody writes that, and readers differ on it.
pub(super) fn check_global(bytes: &[u8]) -> Result<()> {
    records(bytes, |key, _| match key {
        b"path" | b"linkpath" | b"size" => Err(global(key)),
        _ if key.starts_with(b"GNU.sparse.") => Err(global(key)),
        _ => Ok(()),
    })
}

fn global(key: &[u8]) -> Error {
    Error::new(
        Kind::Unsupported,
        format!("a global header sets {:?} for all entries; repack it with GNU tar", String::from_utf8_lossy(key)),
    )
}

/// Calls `record` for each `length key=value`.
fn records(mut bytes: &[u8], mut record: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    while !bytes.is_empty() {
        let (key, value, rest) =
            split(bytes).ok_or_else(|| Error::new(Kind::Corrupt, "an extension header is malformed"))?;
        record(key, value)?;
        bytes = rest;
    }
    Ok(())
}

/// The first record: its key, its value, and what is behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = bytes.iter().take(20).position(|&byte| byte == b' ')?;
    let len = usize::try_from(parse_decimal(bytes.get(..blank)?)?).ok()?;
    let (record, rest) = bytes.split_at_checked(len)?;
    let record = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|&byte| byte == b'=')?;
    let (key, value) = record.split_at_checked(equals)?;
    Some((key, value.get(1..)?, rest))
}

fn decimal(key: &[u8], value: &[u8]) -> Result<u64> {
    parse_decimal(value).ok_or_else(|| {
        Error::new(Kind::Corrupt, format!("{:?} in an extension header is no number", String::from_utf8_lossy(key)))
    })
}

/// Decimal digits, nothing else.
pub(super) fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}
