//! JSON from strangers: bounded, and without room for two readings.
//!
//! Two equal keys, and keys that differ from the ones that count only in case, are read differently by different programs
//! (Go's `encoding/json` ignores case and takes the last). A document that says different things to different readers is
//! refused.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

use crate::error::{Error, Kind, Result, shown};

/// The largest document that is read: what registries allow for a manifest.
pub const MAX_DOCUMENT: usize = 4 << 20;

/// A document, taken apart.
#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool,
    /// A whole number that is not negative, or another one.
    Number(Option<u64>),
    Text(String),
    List(Vec<Value>),
    Object(Object),
}

/// A JSON object.
#[derive(Debug, Default)]
pub(crate) struct Object(BTreeMap<String, Value>);

impl Object {
    /// Reads a document that is one object. `what` is its name in errors.
    pub(crate) fn parse(bytes: &[u8], what: &str) -> Result<Self> {
        if bytes.len() > MAX_DOCUMENT {
            let message = format!("{what} has {} bytes, at most {MAX_DOCUMENT} are allowed", bytes.len());
            return Err(Error::new(Kind::TooLarge, message));
        }
        let mut left = MAX_VALUES;
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let value = Seed { left: &mut left, depth: 0 }.deserialize(&mut reader);
        let value = value.and_then(|value| reader.end().map(|()| value));
        match value {
            Ok(Value::Object(object)) => Ok(object),
            Ok(other) => Err(Error::new(Kind::Malformed, format!("{what} is {}, not an object", other.name()))),
            Err(_) if left == 0 => {
                Err(Error::new(Kind::TooLarge, format!("{what} has more than {MAX_VALUES} values in it")))
            }
            Err(error) if error.to_string().starts_with(DEEP) => {
                Err(Error::new(Kind::TooLarge, format!("{what} is nested deeper than {MAX_DEPTH} levels")))
            }
            Err(error) => {
                Err(Error::new(Kind::Malformed, format!("{what} can't be read as JSON: {}", shown(&error.to_string()))))
            }
        }
    }

    /// The value of this key. `null` is as good as nothing: Go writes it for empty lists.
    fn value(&mut self, key: &str) -> Result<Option<Value>> {
        if let Some(other) = self.0.keys().find(|other| *other != key && other.eq_ignore_ascii_case(key)) {
            let message = format!("it has the key \"{}\", which some take for \"{key}\"", shown(other));
            return Err(Error::new(Kind::Malformed, message));
        }
        Ok(self.0.remove(key).filter(|value| !matches!(value, Value::Null)))
    }

    /// Whether it has this key, with anything but `null`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(other, value)| other.eq_ignore_ascii_case(key) && !matches!(value, Value::Null))
    }

    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>> {
        match self.value(key)? {
            None => Ok(None),
            Some(Value::Text(text)) if text.len() > MAX_TEXT => {
                Err(Error::new(Kind::TooLarge, format!("\"{key}\" has more than {MAX_TEXT} bytes")))
            }
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(unlike(key, &other, "text")),
        }
    }

    pub(crate) fn number(&mut self, key: &str) -> Result<Option<u64>> {
        match self.value(key)? {
            None => Ok(None),
            Some(Value::Number(Some(number))) => Ok(Some(number)),
            Some(other) => Err(unlike(key, &other, "a whole number that is not negative")),
        }
    }

    pub(crate) fn object(&mut self, key: &str) -> Result<Option<Object>> {
        match self.value(key)? {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(unlike(key, &other, "an object")),
        }
    }

    pub(crate) fn list(&mut self, key: &str, most: usize) -> Result<Option<Vec<Value>>> {
        match self.value(key)? {
            None => Ok(None),
            Some(Value::List(list)) if list.len() > most => {
                Err(Error::new(Kind::TooLarge, format!("\"{key}\" has {} entries, {most} are allowed", list.len())))
            }
            Some(Value::List(list)) => Ok(Some(list)),
            Some(other) => Err(unlike(key, &other, "a list")),
        }
    }

    /// A list of objects, each made into what it is.
    pub(crate) fn objects<T>(
        &mut self,
        key: &str,
        most: usize,
        read: impl Fn(Object) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(list) = self.list(key, most)? else { return Ok(None) };
        let entries = list.into_iter().enumerate().map(|(at, value)| match value {
            Value::Object(object) => read(object).map_err(|error| error.at(format_args!("\"{key}\"[{at}]"))),
            other => Err(unlike(&format!("{key}\"[{at}]\""), &other, "an object")),
        });
        entries.collect::<Result<_>>().map(Some)
    }

    pub(crate) fn texts(&mut self, key: &str, most: usize) -> Result<Vec<String>> {
        let list = self.list(key, most)?.unwrap_or_default();
        let texts = list.into_iter().map(|value| match value {
            Value::Text(text) => Ok(text),
            other => Err(unlike(key, &other, "a list of texts")),
        });
        texts.collect()
    }

    /// Texts by name: annotations and labels.
    pub(crate) fn named(&mut self, key: &str) -> Result<BTreeMap<String, String>> {
        let object = self.object(key)?.unwrap_or_default();
        let texts = object.0.into_iter().map(|(name, value)| match value {
            Value::Text(text) => Ok((name, text)),
            other => Err(unlike(&format!("{key}\" / \"{}", shown(&name)), &other, "text")),
        });
        texts.collect()
    }
}

/// The error for a key that must be there.
pub(crate) fn missing(key: &str) -> Error {
    Error::new(Kind::Malformed, format!("\"{key}\" is missing"))
}

fn unlike(key: &str, value: &Value, wanted: &str) -> Error {
    Error::new(Kind::Malformed, format!("\"{key}\" is {}, not {wanted}", value.name()))
}

impl Value {
    fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "true or false",
            Self::Number(Some(_)) => "a number",
            Self::Number(None) => "a negative number or a fraction, or too large",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// Reads one value, as deep and as many as are allowed.
struct Seed<'a> {
    /// How many values there may still be.
    left: &'a mut usize,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Seed<'_> {
    fn spend<E: serde::de::Error>(&mut self) -> Result<(), E> {
        *self.left = self.left.saturating_sub(1);
        if *self.left == 0 { Err(E::custom("too many values")) } else { Ok(()) }
    }

    fn deeper<E: serde::de::Error>(&self) -> Result<usize, E> {
        if self.depth >= MAX_DEPTH { Err(E::custom(DEEP)) } else { Ok(self.depth + 1) }
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Bool)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(Some(number)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.try_into().ok()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Number(None))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut list = Vec::new();
        while let Some(value) = entries.next_element_seed(Seed { left: self.left, depth })? {
            self.spend()?;
            list.push(value);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut object = BTreeMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.spend()?;
            let value = entries.next_value_seed(Seed { left: self.left, depth })?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key \"{}\" is there twice", shown(&key))));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(Object(object)))
    }
}

/// Deeper than any document of a registry is; shallow enough for any stack.
const MAX_DEPTH: usize = 32;
const DEEP: &str = "nested too deep";
/// Several times what the largest allowed index has.
const MAX_VALUES: usize = 200_000;
/// Media types, digests and names are far shorter.
const MAX_TEXT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Option<Kind> {
        Object::parse(text.as_bytes(), "x").err().map(|error| error.kind())
    }

    #[test]
    fn two_readings_are_refused() {
        assert_eq!(kind(r#"{"a": 1, "b": {"c": 1, "d": 2}}"#), None);
        for text in [r#"{"a": 1, "a": 1}"#, r#"{"b": {"c": 1, "c": 2}}"#, r#"{"a": 1, "\u0061": 2}"#, r#"[{"a": 1}]"#] {
            assert_eq!(kind(text), Some(Kind::Malformed), "{text}");
        }
        let mut object = Object::parse(br#"{"Layers": [], "layers": []}"#, "x").unwrap();
        assert!(object.list("layers", 9).unwrap_err().to_string().contains("\"Layers\""));
        let mut object = Object::parse(br#"{"SIZE": 1}"#, "x").unwrap();
        assert!(object.has("size"));
        object.number("size").unwrap_err();
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in
            ["", "{", "nonsense", "{} {}", "{}x", "\u{feff}{}", "{\"a\": NaN}", "{\"a\": 01}", "{'a': 1}", "null", "7"]
        {
            assert_eq!(kind(text), Some(Kind::Malformed), "{text}");
        }
        assert_eq!(Object::parse(b"{\"a\": \"\xff\"}", "x").unwrap_err().kind(), Kind::Malformed);
        let error = Object::parse(b"{\n\n\"a\": x}", "the manifest").unwrap_err().to_string();
        assert!(error.starts_with("the manifest can't be read as JSON: ") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn depth_number_and_size_are_bounded() {
        let deep = |levels: usize| format!("{{\"a\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(kind(&deep(MAX_DEPTH - 1)), None);
        for levels in [MAX_DEPTH, 1000, 1_000_000] {
            assert_eq!(kind(&deep(levels)), Some(Kind::TooLarge), "{levels}");
        }
        assert_eq!(kind(&format!("{{\"a\": {}1}}", "{\"a\":".repeat(500_000))), Some(Kind::TooLarge));
        let many = |count: usize| format!("{{\"a\": [{}0]}}", "0,".repeat(count));
        assert_eq!(kind(&many(MAX_VALUES / 2)), None);
        assert_eq!(kind(&many(MAX_VALUES)), Some(Kind::TooLarge));
        assert_eq!(kind(&" ".repeat(MAX_DOCUMENT + 1)), Some(Kind::TooLarge));
    }

    #[test]
    fn types_are_what_they_are() {
        let text = br#"{"n": -1, "f": 1.5, "big": 18446744073709551616, "t": "x", "nil": null, "b": true, "max": 18446744073709551615,
            "list": [1], "map": {"k": 1}}"#;
        let parse = || Object::parse(text, "x").unwrap();
        for key in ["n", "f", "big", "t", "b", "list", "map"] {
            assert_eq!(parse().number(key).unwrap_err().kind(), Kind::Malformed, "{key}");
        }
        assert_eq!(parse().number("max").unwrap(), Some(u64::MAX));
        assert_eq!(parse().text("nil").unwrap(), None);
        assert_eq!(parse().text("none").unwrap(), None);
        parse().text("b").unwrap_err();
        parse().list("map", 9).unwrap_err();
        parse().texts("list", 9).unwrap_err();
        parse().named("map").unwrap_err();
        assert_eq!(parse().list("list", 0).unwrap_err().kind(), Kind::TooLarge);
    }
}
