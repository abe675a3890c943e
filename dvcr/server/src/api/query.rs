//! The part of an address behind the question mark.

/// The pairs of a query, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').take(MAX_PAIRS).filter(|pair| !pair.is_empty());
        Self(
            pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(k, v)| (decode(k), decode(v))).collect(),
        )
    }

    /// The first value under this name.
    pub(crate) fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// All values under this name.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// Undoes the escapes. `+` stays: digests, tags and media types have it, and nothing here has spaces.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = tail.first_chunk::<2>().filter(|_| first == b'%').and_then(|digits| {
            let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
            u8::from_str_radix(text, 16).ok()
        });
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Escapes what may not stand in a query.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/' | b':') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

const MAX_PAIRS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        let query = Query::parse("digest=sha256%3Aab&n=3&&last=a%2Fb&x&artifactType=a%2Bb&artifactType=c+d&odd=%zz%4");
        assert_eq!(query.first("digest"), Some("sha256:ab"));
        assert_eq!(query.first("last"), Some("a/b"));
        assert_eq!(query.first("x"), Some(""));
        assert_eq!(query.all("artifactType"), ["a+b", "c+d"]);
        assert_eq!(query.first("odd"), Some("%zz%4"));
        assert_eq!(query.first("missing"), None);
        assert_eq!(encode("a+b c/d\"é"), "a%2Bb%20c/d%22%C3%A9");
    }
}
