//! What a registry says when it does not do what is asked.

use dvcr_transport::{Error, Kind, Reply};
use serde_json::Value;

/// An answer that is a refusal.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// The first error code of the specification, in upper case; empty without one.
    pub(crate) code: String,
    /// The words to it.
    message: String,
    retry_after: Option<std::time::Duration>,
}

impl Refusal {
    /// Reads what is said, up to the first of the `secrets` that it repeats.
    pub(crate) async fn read(mut reply: Reply, secrets: Vec<String>) -> Self {
        let page = reply.start(MAX_PAGE).await;
        let mut text = String::from_utf8_lossy(&page).into_owned();
        for secret in secrets.iter().filter(|secret| secret.len() >= 4) {
            if let Some(at) = text.find(secret.as_str()) {
                text.truncate(at);
            }
        }
        let (code, message) = said(&text);
        Self { status: reply.status, code, message, retry_after: reply.retry_after() }
    }

    /// One that says nothing more.
    pub(crate) fn of_status(status: u16) -> Self {
        Self { status, code: String::new(), message: String::new(), retry_after: None }
    }

    /// Whether the registry wants fewer requests, however it says so.
    pub(crate) fn is_too_many(&self) -> bool {
        self.status == 429 || self.code == "TOOMANYREQUESTS"
    }

    /// The same as an error, with what to do where `advice` does not know better.
    pub(crate) fn error(&self, denied: &str) -> Error {
        let mut text = format!("the server answered {}", self.status);
        match (self.code.as_str(), self.message.as_str()) {
            ("", "") => {}
            ("", words) | (words, "") => text.push_str(&format!(" (\"{words}\")")),
            (code, words) => text.push_str(&format!(" (\"{code}: {words}\")")),
        }
        let advice = match self.status {
            _ if self.is_too_many() => "it wants fewer requests: try again later, or log in",
            401 | 403 => denied,
            404 => "check the name",
            405 => "it does not do this at all: is it read-only, or no registry?",
            501 => "it does not do this at all: is this a registry?",
            507 => "it is full: make room there",
            400..=499 => "check the reference",
            _ => "try again later",
        };
        let error = Error::new(Kind::Status(self.status), format!("{text}: {advice}")).when(self.retry_after);
        if self.is_too_many() { error.transient() } else { error }
    }
}

/// Code and message of an error page.
fn said(page: &str) -> (String, String) {
    let value: Value = serde_json::from_str(page).unwrap_or_default();
    let first = value.get("errors").and_then(|errors| errors.get(0)).unwrap_or(&value);
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let code = text(first, "code").unwrap_or_default();
    // Docker Hub's way to say it.
    let message = text(first, "message").or_else(|| text(&value, "details")).or_else(|| text(&value, "error"));
    let message = message.unwrap_or_else(|| if value.is_null() { page.to_owned() } else { String::new() });
    let lower = page.to_ascii_lowercase();
    let code = match plain(&code).to_ascii_uppercase() {
        code if code.is_empty() && lower.contains("toomanyrequests") => "TOOMANYREQUESTS".to_owned(),
        code => code.chars().take(40).collect(),
    };
    (code, plain(&message))
}

/// The first words, on one line, without markup and quotes.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for char in text.chars() {
        match char {
            '<' => inside = true,
            '>' if inside => {
                inside = false;
                out.push(' ');
            }
            _ if inside => {}
            '"' => out.push('\''),
            char if char.is_control() || char == char::REPLACEMENT_CHARACTER => out.push(' '),
            char => out.push(char),
        }
    }
    let words: Vec<_> = out.split_whitespace().collect();
    words.join(" ").chars().take(MAX_WORDS).collect()
}

const MAX_PAGE: usize = 16 << 10;
const MAX_WORDS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_words_are_found() {
        let cases = [
            (
                r#"{"errors":[{"code":"NAME_UNKNOWN","message":"no such\nname","detail":{}}]}"#,
                "NAME_UNKNOWN",
                "no such name",
            ),
            (r#"{"errors":[{"code":"denied"}]}"#, "DENIED", ""),
            (r#"{"details":"incorrect username or password"}"#, "", "incorrect username or password"),
            (r#"{"errors":[]}"#, "", ""),
            ("<html><h1>Bad \"Gateway\"</h1></html>", "", "Bad 'Gateway'"),
            (
                "toomanyrequests: You have reached your limit",
                "TOOMANYREQUESTS",
                "toomanyrequests: You have reached your limit",
            ),
            ("", "", ""),
            ("null", "", "null"),
        ];
        for (page, code, message) in cases {
            assert_eq!(said(page), (code.to_owned(), message.to_owned()), "{page}");
        }
    }

    #[test]
    fn too_many_is_known_in_any_form() {
        let refusal =
            |status, code: &str| Refusal { status, code: code.into(), message: String::new(), retry_after: None };
        for (refusal, transient) in [
            (refusal(429, ""), true),
            (refusal(403, "TOOMANYREQUESTS"), true),
            (refusal(503, ""), true),
            (refusal(403, "DENIED"), false),
            (refusal(404, ""), false),
            (refusal(501, ""), false),
        ] {
            let error = refusal.error("log in");
            assert_eq!(error.is_transient(), transient, "{error}");
        }
    }
}
