//! What a server wants to know of us: `WWW-Authenticate`.

/// A challenge (RFC 9110, 11.3): a scheme and its parameters, or the one token that stands in their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// In lower case.
    pub(crate) scheme: String,
    /// Names in lower case.
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// The challenges in these headers, in order. There may be several in one, and anything that is none is passed over:
    /// servers and proxies write all sorts of things.
    pub(crate) fn parse(headers: &[String]) -> Vec<Self> {
        let mut found = Vec::new();
        for header in headers {
            let mut reader = Reader { rest: header };
            while let Some(word) = reader.word() {
                // A name with a value belongs to the scheme before it; anything else is a scheme.
                if reader.take('=') {
                    let value = reader.value();
                    if let Some(Self { parameters, .. }) = found.last_mut() {
                        parameters.push((word.to_ascii_lowercase(), value));
                    }
                } else {
                    found.push(Self { scheme: word.to_ascii_lowercase(), parameters: Vec::new() });
                }
            }
        }
        found
    }

    /// The value of this parameter, if it has one that is not empty.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let value = self.parameters.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
        value.filter(|value| !value.is_empty())
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn word(&mut self) -> Option<String> {
        let begins = |char: char| char.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(char);
        let start = self.rest.find(begins)?;
        let rest = self.rest.get(start..)?;
        let end = rest.find(|char| !begins(char)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        Some(word.to_owned())
    }

    /// Whether this character is next, white space aside; a token that ends in `=` signs has no value behind them.
    fn take(&mut self, char: char) -> bool {
        match self.rest.trim_start().strip_prefix(char) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> String {
        let rest = self.rest.trim_start();
        let mut value = String::new();
        let Some(quoted) = rest.strip_prefix('"') else {
            let end = rest.find([',', ' ', '\t']).unwrap_or(rest.len());
            let (word, rest) = rest.split_at(end);
            self.rest = rest;
            return word.to_owned();
        };
        let mut chars = quoted.char_indices();
        while let Some((at, char)) = chars.next() {
            match char {
                '"' => {
                    self.rest = quoted.get(at + 1..).unwrap_or_default();
                    return value;
                }
                '\\' => value.extend(chars.next().map(|(_, char)| char)),
                char => value.push(char),
            }
        }
        self.rest = "";
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(headers: &[&str]) -> Vec<Challenge> {
        Challenge::parse(&headers.iter().map(|&header| header.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn one_is_read() {
        let header = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/x:pull""#;
        let found = parse(&[header]);
        assert_eq!((found.len(), found[0].scheme.as_str()), (1, "bearer"));
        assert_eq!(found[0].value("realm"), Some("https://auth.docker.io/token"));
        assert_eq!(found[0].value("scope"), Some("repository:library/x:pull"));
        assert_eq!(found[0].value("error"), None);
    }

    #[test]
    fn several_are_read_from_one_header_or_many() {
        let both = parse(&[
            r#"Basic realm="Artifactory Realm", Bearer realm="https://h/t?a=b&c=d" , SERVICE=h:5000,scope="a b""#,
        ]);
        assert_eq!(both.iter().map(|challenge| challenge.scheme.as_str()).collect::<Vec<_>>(), ["basic", "bearer"]);
        assert_eq!(
            (both[0].value("realm"), both[1].value("realm")),
            (Some("Artifactory Realm"), Some("https://h/t?a=b&c=d"))
        );
        assert_eq!((both[1].value("service"), both[1].value("scope")), (Some("h:5000"), Some("a b")));
        let many = parse(&["Negotiate", "NTLM TlRMTVNTUA==", r#"Bearer realm="x""#, "Basic"]);
        let names: Vec<_> = many.iter().map(|challenge| challenge.scheme.as_str()).collect();
        assert!(names.contains(&"bearer") && names.contains(&"basic") && names.contains(&"negotiate"), "{names:?}");
        assert_eq!(many.iter().find(|challenge| challenge.scheme == "bearer").unwrap().value("realm"), Some("x"));
    }

    #[test]
    fn odd_ones_do_no_harm() {
        let found = parse(&[r#"bearer realm = "a\"b\\c" ,, service="" "#]);
        assert_eq!((found[0].value("realm"), found[0].value("service")), (Some("a\"b\\c"), None));
        assert_eq!(parse(&["", ",,", "\"\"", "="]), []);
        let found = parse(&[r#"Bearer realm="never ends"#]);
        assert_eq!(found[0].value("realm"), Some("never ends"));
        assert_eq!(parse(&["Bearer realm"])[0].scheme, "bearer");
    }
}
