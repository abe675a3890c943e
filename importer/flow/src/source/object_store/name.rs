//! Bucket and key.

use crate::Result;

use super::usage;

/// An object in a store, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    scheme: &'static str,
    bucket: String,
    /// As it is: no character has a meaning, also not `%`, `?` and `#`.
    key: String,
}

impl Name {
    /// Understands `SCHEME://bucket/key`.
    pub(super) fn parse(text: &str, scheme: &'static str) -> Result<Self> {
        let form = format!("write {scheme}://BUCKET/KEY");
        let rest = match text.split_once("://") {
            Some((given, rest)) if given.eq_ignore_ascii_case(scheme) => rest,
            _ => return Err(usage(format!("{text:?} is no object: {form}"))),
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if bucket.is_empty() || bucket.len() > 222 || !bucket.bytes().all(valid) || matches!(bucket, "." | "..") {
            return Err(usage(format!(
                "{scheme}://{bucket} names no bucket, which has letters, digits, . - _: {form}"
            )));
        }
        if key.is_empty() {
            return Err(usage(format!("{scheme}://{bucket} is a bucket; one object in it is needed: {form}")));
        }
        if key.len() > MAX_KEY {
            return Err(usage(format!("the key in {scheme}://{bucket} is longer than {MAX_KEY} bytes")));
        }
        Ok(Self { scheme, bucket: bucket.to_owned(), key: key.to_owned() })
    }

    pub(super) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The key as it goes into the path of an address.
    pub(super) fn encoded_key(&self) -> String {
        encode(&self.key, |byte| byte == b'/')
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}/{}", self.scheme, self.bucket, self.key)
    }
}

/// Percent-encodes everything but letters, digits, `- . _ ~` and what `also` allows, as both stores do before they
/// compare signatures.
pub(super) fn encode(text: &str, also: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) || also(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Whether a byte stands for itself wherever in an address it is (RFC 3986, 2.3).
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// "Object keys can be up to 1,024 bytes long", say both.
const MAX_KEY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn every_character_of_a_key_is_encoded_once() {
        for (key, encoded) in [
            ("images/f41.qcow2", "images/f41.qcow2"),
            ("a b+c%20d?e#f&g=h", "a%20b%2Bc%2520d%3Fe%23f%26g%3Dh"),
            ("ключ~_-.", "%D0%BA%D0%BB%D1%8E%D1%87~_-."),
            ("/leading//double/../dots/", "/leading//double/../dots/"),
            ("(!*')", "%28%21%2A%27%29"),
        ] {
            let name = Name::parse(&format!("s3://bucket/{key}"), "s3").unwrap();
            assert_eq!(name.encoded_key(), encoded);
            assert_eq!(name.to_string(), format!("s3://bucket/{key}"));
        }
    }

    #[test]
    fn what_names_no_object_is_refused() {
        let long = format!("s3://bucket/{}", "k".repeat(1025));
        for (text, word) in [
            ("s3://bucket", "is a bucket"),
            ("s3://bucket/", "is a bucket"),
            ("s3:///key", "no bucket"),
            ("s3://key:secret@bucket/key", "no bucket"),
            ("s3://buck et/key", "no bucket"),
            ("s3://../key", "no bucket"),
            ("gs://bucket/key", "is no object"),
            (&long, "longer"),
        ] {
            let error = Name::parse(text, "s3").unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
        assert_eq!(Name::parse("GS://b/k", "gs").unwrap().to_string(), "gs://b/k");
    }
}
