//! The text that describes a disk: embedded in its only file, or a file of its own beside the files with the data.
//!
//! Names in it are never opened; they are only told to people.

mod refusal;

use crate::text::printable;
use crate::{Error, Kind, Result};

pub use refusal::refuse;

/// What the text says.
#[derive(Debug, Default)]
pub(super) struct Descriptor {
    /// The type of the disk, fit for a terminal.
    pub create_type: String,
    /// What the disk was attached to (`ide`, `lsilogic`, …), fit for a terminal.
    pub adapter: Option<String>,
    /// The first few extents.
    pub extents: Vec<Part>,
    /// How many extents there are.
    pub count: usize,
    /// Whether the disk is the difference to another disk.
    pub parent: bool,
    /// Whether it mentions encryption.
    pub encrypted: bool,
}

/// An extent line: `RW 20480 SPARSE "disk.vmdk"`.
#[derive(Debug)]
pub(super) struct Part {
    /// Whether the guest may see it.
    pub accessible: bool,
    /// Length in sectors.
    pub sectors: u64,
    /// `SPARSE`, `FLAT`, …, in upper case and fit for a terminal.
    pub kind: String,
    /// The file that holds it, as it stands there.
    pub name: Option<String>,
    /// Where it begins in that file, in sectors.
    pub offset: u64,
}

impl Descriptor {
    /// Reads a descriptor; it ends at the first NUL. `None` when there is none: what a part of a split disk has.
    pub fn parse(text: &[u8]) -> Result<Option<Self>> {
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        if text.trim().is_empty() {
            return Ok(None);
        }
        let mut this = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(part) = Part::parse(line) {
                let part = part.ok_or_else(|| corrupt(format!("line {number} of the descriptor is no extent")))?;
                this.count += 1;
                if this.extents.len() < MAX_NAMED {
                    this.extents.push(part);
                }
            } else if let Some((key, value)) = line.split_once('=') {
                this.set(&key.trim().to_ascii_lowercase(), value.trim().trim_matches('"').trim())?;
            }
        }
        if this.create_type.is_empty() {
            return Err(corrupt("the descriptor names no createType"));
        }
        Ok(Some(this))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "createtype" => {
                let value = printable(value.as_bytes());
                if !self.create_type.is_empty() && self.create_type != value {
                    return Err(corrupt("the descriptor names two createTypes"));
                }
                self.create_type = value;
            }
            "parentcid" => match u32::from_str_radix(value, 16) {
                Ok(cid) => self.parent |= cid != NO_PARENT,
                Err(_) => return Err(corrupt("the descriptor's parentCID is no number")),
            },
            "parentfilenamehint" => self.parent = true,
            "ddb.adaptertype" => self.adapter = Some(printable(value.as_bytes())),
            // Workstation encrypts the text and names the keys; vSphere leaves the text and names the filter.
            _ if key.contains("encrypt") || key.contains("keysafe") => self.encrypted = true,
            "ddb.iofilters" => self.encrypted |= value.contains("vmwarevmcrypt"),
            _ => {}
        }
        Ok(())
    }
}

impl Part {
    /// Reads an extent line; `None` when it is another line, `Some(None)` when it is a broken one.
    fn parse(line: &str) -> Option<Option<Self>> {
        let (access, rest) = line.split_once(char::is_whitespace)?;
        let accessible = match access {
            "RW" | "RDONLY" => true,
            "NOACCESS" => false,
            _ => return None,
        };
        Some(Self::parse_rest(accessible, rest.trim_start()))
    }

    fn parse_rest(accessible: bool, rest: &str) -> Option<Self> {
        let (sectors, rest) = rest.split_once(char::is_whitespace)?;
        let sectors = sectors.parse().ok()?;
        let rest = rest.trim_start();
        let (kind, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let kind = printable(kind.to_ascii_uppercase().as_bytes());
        let mut quoted = rest.splitn(3, '"');
        let (name, offset) = match (quoted.next(), quoted.next(), quoted.next()) {
            (Some(before), Some(name), Some(after)) if before.trim().is_empty() => (Some(name.to_owned()), after),
            (Some(before), None, None) if before.trim().is_empty() && kind == "ZERO" => (None, ""),
            _ => return None,
        };
        let offset = match offset.split_whitespace().next() {
            Some(offset) => offset.parse().ok()?,
            None => 0,
        };
        Some(Self { accessible, sectors, kind, name, offset })
    }
}

fn corrupt(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Kind::Corrupt, message)
}

/// The parent CID of a disk that has no parent.
const NO_PARENT: u32 = u32::MAX;

/// Enough to name to a person; a disk of 2 TB in parts of 2 GB has a thousand.
const MAX_NAMED: usize = 4;

#[cfg(test)]
mod tests;
