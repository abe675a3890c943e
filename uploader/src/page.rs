//! The page for people: one document without anything from elsewhere, that sends a file by tus.
//!
//! Its policy lets it run the one script that is in it, and talk to where it came from. Whatever a file or a server says gets
//! onto it as text.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, VARY};
use ring::digest::{SHA256, digest};

use crate::answer::{self, Answer};
use crate::api::Place;

/// The page for what a server has.
#[must_use]
pub fn answer(place: &Place) -> Answer {
    let (name, token, terminal) = match place {
        Place::One { .. } => ("one", "", "curl -T disk.img ADDRESS"),
        Place::Folder { token: None, .. } => ("folder", "", FOLDER),
        Place::Folder { token: Some(_), .. } => ("folder", "needed", FOLDER_WITH_TOKEN),
    };
    let values = [("PLACE", name), ("TOKEN", token), ("TERMINAL", terminal), ("STYLE", STYLE), ("SCRIPT", SCRIPT)];
    let mut answer = answer::page(fill(PAGE, &values));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("x-frame-options", HeaderValue::from_static("DENY"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    answer
}

/// Puts values where `{NAME}` stands, each once. What is put in is not looked at again.
fn fill(mut text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len() + values.iter().map(|(_, value)| value.len()).sum::<usize>());
    while let Some((front, rest)) = text.split_once('{') {
        filled.push_str(front);
        let found = rest.split_once('}').and_then(|(name, rest)| {
            let (_, value) = values.iter().find(|(known, _)| *known == name)?;
            Some((value, rest))
        });
        text = match found {
            Some((value, rest)) => {
                filled.push_str(value);
                rest
            }
            None => {
                filled.push('{');
                rest
            }
        };
    }
    filled.push_str(text);
    filled
}

/// `trusted-types` without a name: no text is ever taken for markup or for a script, whatever a later change does.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types",
        hash(SCRIPT),
        hash(STYLE)
    );
    // Letters, digits and signs of ASCII: this does not fail; and with less than this the page shows nothing.
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");
const FOLDER: &str = "\
curl -i -X POST -H 'Tus-Resumable: 1.0.0' -H 'Upload-Defer-Length: 1' \\
  -H \"Upload-Metadata: filename $(printf disk.img | base64)\" ADDRESS
# and to the Location that this gives:
curl -T disk.img ADDRESS/SECRET";
const FOLDER_WITH_TOKEN: &str = "\
curl -i -X POST -H 'Authorization: Bearer TOKEN' \\
  -H 'Tus-Resumable: 1.0.0' -H 'Upload-Defer-Length: 1' \\
  -H \"Upload-Metadata: filename $(printf disk.img | base64)\" ADDRESS
# and to the Location that this gives:
curl -T disk.img ADDRESS/SECRET";

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::token::Token;

    fn text(place: &Place) -> String {
        let body = answer(place).into_body();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bytes = runtime.block_on(body.collect()).unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn places() -> [Place; 3] {
        let token = Token::of("secret");
        [
            Place::One { token, secret: true },
            Place::Folder { root: "disks".into(), token: None },
            Place::Folder { root: "disks".into(), token: Some(token) },
        ]
    }

    #[test]
    fn is_whole_and_needs_nothing_from_elsewhere() {
        for place in places() {
            let page = text(&place);
            assert!(page.len() < 40 << 10, "{}", page.len());
            for name in ["PLACE", "TOKEN", "TERMINAL", "STYLE", "SCRIPT"] {
                assert!(!page.contains(&format!("{{{name}}}")), "{name}");
            }
            for what in [" src=", "@import", "url(", "innerHTML", "<link rel=\"stylesheet"] {
                assert!(!page.contains(what), "{what}");
            }
            assert!(page.contains("curl ") && page.contains("<noscript>"));
        }
    }

    #[test]
    fn the_policy_knows_the_script_and_the_style_that_are_there() {
        for place in places() {
            let page = text(&place);
            for (open, close, text) in [("<script>", "</script>", SCRIPT), ("<style>", "</style>", STYLE)] {
                assert_eq!(page.matches(open).count(), 1);
                assert_eq!(page.matches(close).count(), 1, "a text ends its own element");
                let inner = page.split_once(open).unwrap().1.split_once(close).unwrap().0;
                assert!(inner == text && !text.contains('\r'));
            }
        }
        let policy = POLICY.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn values_are_put_in_once() {
        let filled = fill("a{B}c{D}{E {B", &[("B", "{D}"), ("D", "")]);
        assert_eq!(filled, "a{D}c{E {B");
    }
}
