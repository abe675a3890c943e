//! Lists of checksums: `SHA256SUMS` and its like.
//!
//! Lists come as coreutils write them (`HASH  NAME`, `HASH *NAME`, names with backslash escapes), as BSD, `sha256sum --tag`,
//! openssl and rhash do (`SHA256 (NAME) = HASH`), as Gentoo does (`# SHA512 HASH` above the lines it is true of), or as
//! one hash alone. A list may be signed in clear (PGP): then what stands in the signed part counts. **The signature is not
//! verified**; a list is as trustworthy as where it comes from.

mod line;

use line::{Line, Sum};

use super::{Algorithm, Checksum};
use crate::{Error, Kind, Piece, Result, Source};

/// The checksums that a list has for a file. All that we can compute must match, when it has several.
///
/// Without an `algorithm`, a hash that stands without the name of one is md5, sha1, sha256 or sha512, by its length; or
/// Streebog, if the file name of the list says so (`…gost…`, `…streebog…`). With one, only its hashes count.
///
/// `name` is the file's own name. An entry is of that file if its name is the same, or if its path ends in that name and
/// no entry for another path does. A hash without a name is of any file. Reads at most 1 MiB.
///
/// # Errors
/// What the source says; [`Kind::Refused`] when the list is no list, or says nothing, or contradicts itself, about the file.
pub fn listed(list: &mut dyn Source, algorithm: Option<Algorithm>, name: Option<&[u8]>) -> Result<Vec<Checksum>> {
    let bytes = read(list)?;
    let family = Family::of(list.file_name().as_deref().unwrap_or_default());
    let list_name = list.name();
    List::read(&bytes, algorithm, family)
        .find(algorithm, name)
        .map_err(|what| Error::new(Kind::Refused, format!("the list of checksums {list_name}: {what}")))
}

fn read(list: &mut dyn Source) -> Result<Vec<u8>> {
    let mut stream = list.open()?;
    let mut bytes = Vec::new();
    let mut len = list.len().unwrap_or(0);
    while len <= LIMIT
        && let Some(piece) = stream.next()?
    {
        len = len.max(bytes.len() as u64 + piece.len());
        match piece {
            _ if len > LIMIT => {}
            Piece::Bytes(part) => bytes.extend_from_slice(&part),
            Piece::Hole(part) => bytes.resize(bytes.len() + usize::try_from(part).unwrap_or(0), 0),
        }
    }
    if len > LIMIT {
        let message =
            format!("the list of checksums {}: it is larger than {} KiB, so it is no list", list.name(), LIMIT >> 10);
        return Err(Error::new(Kind::Refused, message));
    }
    Ok(bytes)
}

/// What hashes of 64 and 128 digits are of that stand without the name of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// SHA-2, as nearly always.
    Sha2,
    /// Streebog.
    Streebog,
    /// Something that we don't know.
    Unknown,
}

impl Family {
    /// By the file name of the list.
    fn of(list: &[u8]) -> Self {
        let name = String::from_utf8_lossy(list).to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if says(&["b2sum", "blake", "sha3-", "sha3_", "sha3sum", "whirlpool"]) {
            Self::Unknown
        } else if says(&["streebog", "gost"]) && !says(&["sha256", "sha512"]) {
            Self::Streebog
        } else {
            Self::Sha2
        }
    }

    fn of_len(self, digits: usize) -> Option<Algorithm> {
        match (digits, self) {
            (32, _) => Some(Algorithm::Md5),
            (40, _) => Some(Algorithm::Sha1),
            (64, Self::Sha2) => Some(Algorithm::Sha256),
            (128, Self::Sha2) => Some(Algorithm::Sha512),
            (64, Self::Streebog) => Some(Algorithm::Streebog256),
            (128, Self::Streebog) => Some(Algorithm::Streebog512),
            _ => None,
        }
    }
}

/// What a list says.
struct List {
    entries: Vec<Entry>,
    /// Its first words, for those who expected another file.
    start: String,
}

/// One hash of one file.
struct Entry {
    /// The path as the list has it; `None` for a hash of anything.
    path: Option<Vec<u8>>,
    checksum: Result<Checksum, Unknown>,
}

/// What an algorithm that we don't know is called, or looks like.
struct Unknown(String);

impl List {
    fn read(bytes: &[u8], algorithm: Option<Algorithm>, family: Family) -> Self {
        let mut entries = Vec::new();
        let mut section: Option<String> = None;
        let mut signed = Signed::No;
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        for line in bytes.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii_end();
            let Some(line) = signed.inside(line) else { continue };
            match Line::read(line) {
                Some(Line::SignedMessage) => {
                    // What stands in front of it was not signed.
                    entries.clear();
                    section = None;
                    signed = Signed::Headers;
                }
                Some(Line::Section(name)) => section = Some(name),
                Some(Line::Sum(Sum { tag, hex, path })) => {
                    let checksum = match tag.as_ref().or(section.as_ref()) {
                        Some(tag) => Algorithm::named(tag)
                            .and_then(|algorithm| Checksum::new(algorithm, &hex))
                            .ok_or_else(|| Unknown(tag.clone())),
                        None => algorithm
                            .and_then(|algorithm| Checksum::new(algorithm, &hex))
                            .or_else(|| Checksum::new(family.of_len(hex.len())?, &hex))
                            .ok_or_else(|| Unknown(format!("a hash of {} digits", hex.len()))),
                    };
                    entries.push(Entry { path, checksum });
                }
                None => {}
            }
        }
        Self { entries, start: first_words(bytes) }
    }

    /// What it has for the file of this name.
    fn find(&self, algorithm: Option<Algorithm>, name: Option<&[u8]>) -> Result<Vec<Checksum>, String> {
        let mut sums = Vec::new();
        let mut unknown = Vec::new();
        for entry in self.of(name)? {
            match &entry.checksum {
                Ok(sum) if algorithm.is_some_and(|wanted| wanted != sum.algorithm()) => {
                    unknown.push(sum.algorithm().name());
                }
                Ok(sum) if sums.contains(sum) => {}
                Ok(sum) => {
                    if sums.iter().any(|other: &Checksum| other.algorithm() == sum.algorithm()) {
                        let of = sum.algorithm();
                        return Err(format!(
                            "it has two different {of} hashes for the image; give one with --checksum"
                        ));
                    }
                    sums.push(sum.clone());
                }
                Err(Unknown(tag)) => unknown.push(tag.as_str()),
            }
        }
        if sums.is_empty() {
            let wanted = algorithm.map_or_else(|| Algorithm::ALL.map(Algorithm::name).join(", "), |of| of.to_string());
            return Err(format!("it has only {} for the image, none of {wanted}", few(unknown.into_iter())));
        }
        Ok(sums)
    }

    /// The entries of the file of this name.
    fn of(&self, name: Option<&[u8]>) -> Result<Vec<&Entry>, String> {
        if self.entries.is_empty() {
            return Err(match self.start.as_str() {
                "" => "it is empty".to_owned(),
                start => format!("there is no checksum in it; it begins with '{start}'"),
            });
        }
        let with = |wanted: &dyn Fn(&[u8]) -> bool| -> Vec<&Entry> {
            self.entries.iter().filter(|entry| entry.path.as_deref().is_some_and(wanted)).collect()
        };
        if let Some(name) = name {
            let exact = with(&|path| path == name);
            if !exact.is_empty() {
                return Ok(exact);
            }
            let elsewhere = with(&|path| line::base(path) == name);
            let mut paths: Vec<_> = elsewhere.iter().filter_map(|entry| entry.path.as_deref()).collect();
            paths.sort_unstable();
            paths.dedup();
            match paths.len() {
                0 => {}
                1 => return Ok(elsewhere),
                _ => {
                    let paths = few(paths.iter().map(|path| String::from_utf8_lossy(path)));
                    return Err(format!("several entries have that name ({paths}): give one with --checksum"));
                }
            }
        }
        // Hashes of anything, and of nothing else.
        if self.entries.iter().all(|entry| entry.path.is_none()) {
            return Ok(self.entries.iter().collect());
        }
        let name = name.map_or_else(|| "the image, whose name is not known".into(), String::from_utf8_lossy);
        let mut names: Vec<_> = self.entries.iter().filter_map(|entry| entry.path.as_deref()).collect();
        names.dedup();
        let names = few(names.into_iter().map(String::from_utf8_lossy));
        Err(format!("it has nothing for {name}, only for {names}: give another list, or the hash with --checksum"))
    }
}

/// Where in a list that is signed in clear one is (RFC 9580, 7).
enum Signed {
    /// It is not signed, or not yet.
    No,
    /// In the headers of a signed message.
    Headers,
    /// In what is signed.
    Text,
    /// Behind it, or in the signature.
    Behind,
}

impl Signed {
    /// The line, without the dash in front, if it counts.
    fn inside<'a>(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Self::No => Some(line),
            Self::Headers if line.is_empty() => {
                *self = Self::Text;
                None
            }
            Self::Text if line.starts_with(b"-----BEGIN PGP SIGNATURE") => {
                *self = Self::Behind;
                None
            }
            Self::Text => Some(line.strip_prefix(b"- ").unwrap_or(line)),
            Self::Headers | Self::Behind => None,
        }
    }
}

/// At most five of them.
fn few<T: AsRef<str>>(names: impl ExactSizeIterator<Item = T>) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let mut shown = names.take(SHOWN).map(|name| name.as_ref().to_owned()).collect::<Vec<_>>().join(", ");
    if more > 0 {
        shown += &format!(" and {more} more");
    }
    shown
}

fn first_words(bytes: &[u8]) -> String {
    let start = String::from_utf8_lossy(bytes.get(..bytes.len().min(400)).unwrap_or_default());
    start.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect()
}

/// The longest list that is read.
const LIMIT: u64 = 1 << 20;
/// Names that an error tells.
const SHOWN: usize = 5;

#[cfg(test)]
mod tests;
