//! `Upload-Metadata`: what a client tells of an upload.
//!
//! //# tus 1.0.0, Creation: "The `Upload-Metadata` request and response header MUST consist of one or more comma-separated
//! key-value pairs. The key and value MUST be separated by a space. [...] The value MUST be Base64 encoded."

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use importer_flow::Checksum;

use crate::refusal::Refusal;

/// What a client tells of an upload, of which we read two things. It is never trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The name of the file (`filename`, or `name`).
    pub name: Option<String>,
    /// What the whole image hashes to (`checksum`, as `sha256 HEX`).
    pub checksums: Vec<Checksum>,
}

impl Metadata {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// 400 for what is no list of pairs, or too long, and for a name or a checksum that is none.
    pub fn parse(header: &str) -> Result<Self, Refusal> {
        if header.len() > MOST {
            return Err(Refusal::bad(format!("Upload-Metadata has more than {MOST} bytes")));
        }
        let mut metadata = Self::default();
        let mut second = None;
        // An empty header is what some clients send that have nothing to tell.
        for pair in header.split(',').map(str::trim).filter(|_| !header.trim().is_empty()) {
            let (key, value) = pair.split_once(' ').unwrap_or((pair, ""));
            if key.is_empty() {
                return Err(Refusal::bad("Upload-Metadata has a pair without a key"));
            }
            match key {
                "filename" => metadata.name = Some(text(key, value)?),
                "name" => second = Some(text(key, value)?),
                "checksum" => {
                    let checksum = text(key, value)?;
                    let written = checksum.trim().replacen(' ', ":", 1);
                    let checksum =
                        written.parse().map_err(|error| Refusal::bad(format!("Upload-Metadata: {error}")))?;
                    metadata.checksums.push(checksum);
                }
                // It decides nothing, here as elsewhere.
                _ => {}
            }
        }
        metadata.name = metadata.name.or(second);
        Ok(metadata)
    }
}

fn text(key: &str, value: &str) -> Result<String, Refusal> {
    let wrong = || Refusal::bad(format!("Upload-Metadata: the value of {key} is no text in Base64"));
    let bytes = STANDARD.decode(value.trim()).map_err(|_| wrong())?;
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Names, types and checksums have some hundred bytes.
const MOST: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(pairs: &[(&str, &str)]) -> String {
        let pair = |(key, value): &(&str, &str)| format!("{key} {}", STANDARD.encode(value));
        pairs.iter().map(pair).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn names_and_checksums_are_read() {
        let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d";
        let (space, colon) = (format!("sha1 {sha1}"), format!("SHA-1:{sha1}"));
        for (pairs, name, checksums) in [
            (&[("filename", "jammy.img"), ("filetype", "application/x-raw")][..], Some("jammy.img"), 0),
            (&[("name", "größe.img")], Some("größe.img"), 0),
            (&[("name", "second"), ("filename", "first")], Some("first"), 0),
            (&[("checksum", &space)], None, 1),
            (&[("checksum", &colon), ("relativePath", "null")], None, 1),
        ] {
            let metadata = Metadata::parse(&encoded(pairs)).unwrap();
            assert_eq!((metadata.name.as_deref(), metadata.checksums.len()), (name, checksums), "{pairs:?}");
        }
        assert_eq!(Metadata::parse(""), Ok(Metadata::default()));
        // A key alone is a pair with an empty value.
        assert_eq!(Metadata::parse("is_confidential, empty "), Ok(Metadata::default()));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            "filename !!!",
            "filename YQ",
            "filename /w==",
            "checksum YWJj",
            ",",
            "a YQ==,,b YQ==",
            &format!("a {}", "A".repeat(MOST)),
        ] {
            assert_eq!(Metadata::parse(wrong).unwrap_err().status, 400, "{wrong:.40}");
        }
    }
}
