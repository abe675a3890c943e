//! What the head of a part says of it.

use super::Malformed;

/// The head of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The name of the field.
    pub name: String,
    /// The content is written in another way than as it is: base64, which nobody has used in forms for long.
    pub encoded: bool,
}

impl Head {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let text = String::from_utf8_lossy(bytes);
        let mut head = Self::default();
        for line in text.split("\r\n").filter(|line| !line.is_empty()) {
            let (name, value) =
                line.split_once(':').ok_or(Malformed("the head of a part has a line without a colon"))?;
            if name.eq_ignore_ascii_case("content-disposition") {
                let (kind, parameters) = value.split_once(';').unwrap_or((value, ""));
                if kind.trim().eq_ignore_ascii_case("form-data") {
                    head.name = parameter(parameters, "name").unwrap_or_default();
                }
            } else if name.eq_ignore_ascii_case("content-transfer-encoding") {
                let plain = ["binary", "8bit", "7bit"];
                head.encoded = !plain.iter().any(|plain| value.trim().eq_ignore_ascii_case(plain));
            }
        }
        Ok(head)
    }
}

/// A parameter of `text`, as in `name="file"; filename="a \"b\".img"`.
pub(super) fn parameter(text: &str, wanted: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';']);
        let (name, behind) = rest.split_once('=')?;
        let (value, behind) = match behind.trim_start().strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let (value, behind) = behind.split_once(';').unwrap_or((behind, ""));
                (value.trim().to_owned(), behind)
            }
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = behind;
    }
}

/// What stands before the closing quote, and what behind it. A backslash counts only before a quote or a backslash: some
/// clients send paths of Windows as they are.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match letters.next_if(|(_, next)| matches!(next, '"' | '\\')) {
                Some((_, escaped)) => value.push(escaped),
                None => value.push('\\'),
            },
            _ => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_behind_others_and_not_inside_them() {
        for (text, found) in [
            (r#" name="file""#, Some("file")),
            (r" name=file", Some("file")),
            (r#"NAME = "file" ; filename="x""#, Some("file")),
            (r#" filename="a; name=\"evil\".img"; name="file""#, Some("file")),
            (r#" filename="C:\disks\a.img"; name="file""#, Some("file")),
            (r#" filename="größe \\ \".qcow2"; name=file; x=y"#, Some("file")),
            (r#" filename*=UTF-8''a%20b; name="file""#, Some("file")),
            (r#" filename="name=file""#, None),
            (r#" name="file"#, None),
            ("", None),
        ] {
            assert_eq!(parameter(text, "name").as_deref(), found, "{text}");
        }
    }

    #[test]
    fn heads() {
        let head = |name: &str, encoded| Ok(Head { name: name.into(), encoded });
        for (text, expected) in [
            (
                "content-disposition: form-data; name=\"file\"; filename=\"a\"\r\nContent-Type: a/b\r\n\r\n",
                head("file", false),
            ),
            ("Content-Disposition: attachment; name=\"file\"\r\n\r\n", head("", false)),
            ("Content-Disposition:form-data;name=a\r\nContent-Transfer-Encoding: BASE64\r\n\r\n", head("a", true)),
            ("Content-Disposition:form-data;name=a\r\nContent-Transfer-Encoding: binary\r\n\r\n", head("a", false)),
            ("\r\n", head("", false)),
        ] {
            assert_eq!(Head::parse(text.as_bytes()), expected, "{text}");
        }
        Head::parse(b"no colon\r\n\r\n").unwrap_err();
    }
}
