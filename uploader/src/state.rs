//! What is kept of an upload for the case that its server starts again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use importer_flow::source::upload::Front;
use serde::{Deserialize, Serialize};

use crate::token::Token;

/// What is kept of an upload for the case that its server starts again: two small files in a folder of the server's. The
/// disk itself, and how far it is, is kept by its target.
///
/// Only raw disks go on in another process, because only they need nothing but a place to go on at; what is compressed or
/// has tables is sent again from its start.
#[derive(Clone, Debug)]
pub struct State {
    folder: PathBuf,
    key: String,
}

/// What an upload is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Differs for every upload.
    pub identity: String,
    /// How people know it.
    pub name: String,
    /// How many bytes there will be.
    pub length: u64,
    /// What they must hash to.
    #[serde(default)]
    pub checksums: Vec<String>,
}

impl State {
    /// The state of the only upload of a server.
    #[must_use]
    pub fn only(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), key: "upload".into() }
    }

    /// The state of the upload with this token, of which a hash is the name.
    #[must_use]
    pub fn of(folder: &Path, token: &Token) -> Self {
        Self { folder: folder.to_owned(), key: token.to_hex() }
    }

    /// All that is kept in a folder for tokens, and when it was made. What can't be read is left out.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn all(folder: &Path) -> io::Result<Vec<(Token, Self, Record, SystemTime)>> {
        let mut all = Vec::new();
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(all),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let key = name.to_str().and_then(|name| name.strip_suffix(".json"));
            let Some(token) = key.and_then(Token::from_hex) else { continue };
            let state = Self::of(folder, &token);
            if let (Some(record), Ok(metadata)) = (state.load(), entry.metadata()) {
                all.push((token, state, record, metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)));
            }
        }
        Ok(all)
    }

    /// What is kept, if it makes sense.
    #[must_use]
    pub fn load(&self) -> Option<Record> {
        let bytes = fs::read(self.file("json")).ok().filter(|bytes| bytes.len() <= MAX_RECORD)?;
        serde_json::from_slice(&bytes).ok()
    }

    /// The start of the upload, whole or not there yet.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn front(&self) -> io::Result<Front> {
        Front::open(&self.file("front"))
    }

    /// Keeps this, and forgets what was kept before.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn keep(&self, record: &Record) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        Front::remove(&self.file("front"))?;
        let temporary = self.file("json.tmp");
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        fs::rename(&temporary, self.file("json"))?;
        File::open(&self.folder)?.sync_all()
    }

    /// Forgets everything.
    pub fn forget(&self) {
        let record = Front::remove(&self.file("json"));
        let front = Front::remove(&self.file("front"));
        if let Err(error) = record.and(front) {
            tracing::warn!("what was kept of an upload can't be removed: {error}");
        }
        // Others may be in it.
        let _ = fs::remove_dir(&self.folder);
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.key))
    }
}

/// A name and some checksums.
const MAX_RECORD: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_found_again_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("state");
        assert!(State::all(&folder).unwrap().is_empty());
        let token = Token::of("secret");
        let state = State::of(&folder, &token);
        let record = Record { identity: "1".into(), name: "jammy.img".into(), length: 5, checksums: Vec::new() };
        state.keep(&record).unwrap();
        fs::write(folder.join("stray.json"), "{}").unwrap();
        fs::write(folder.join("stray"), "{}").unwrap();
        let all = State::all(&folder).unwrap();
        let [(found, _, kept, _)] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((found, kept), (&token, &record));
        assert!(!format!("{all:?}").contains("secret"));
        state.forget();
        assert!(State::all(&folder).unwrap().is_empty() && state.load().is_none());
        fs::write(folder.join("upload.json"), "no JSON").unwrap();
        assert!(State::only(&folder).load().is_none());
    }
}
