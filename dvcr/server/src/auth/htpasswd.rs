//! Names and passwords.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ring::digest::{SHA256, digest};
use tokio::sync::Semaphore;

use crate::api::blocking;
use crate::error::{Error, Kind, Result};
use crate::watched::Watched;

/// A file as `htpasswd -B` writes it.
pub(super) struct Htpasswd {
    users: Watched<HashMap<String, String>>,
    /// Passwords that were right, with the hash they were right for: bcrypt is slow on purpose, and each request brings
    /// its password again. Hashed, so that they can't be read from memory.
    known: Arc<Mutex<HashSet<[u8; 32]>>>,
    /// How many passwords are compared at a time: the others wait, so that guessing takes no more of the machine.
    turns: Arc<Semaphore>,
}

impl Htpasswd {
    pub(super) fn new(file: PathBuf) -> Result<Self> {
        let users = Watched::new(vec![file], |files| parse(files.first().map(Vec::as_slice).unwrap_or_default()))?;
        Ok(Self { users, known: Arc::default(), turns: Arc::new(Semaphore::new(TURNS)) })
    }

    /// The first of those who are in another file, too.
    pub(super) fn shared(&self, other: &Self) -> Result<Option<String>> {
        let (ours, theirs) = (self.users.now()?, other.users.now()?);
        Ok(ours.keys().filter(|user| theirs.contains_key(*user)).min().cloned())
    }

    /// Whether this is somebody's password. Somebody who does not exist takes as long as one with a wrong password.
    pub(super) async fn accepts(&self, user: &str, password: &str) -> Result<bool> {
        let users = self.users.now()?;
        let hash = users.get(user).cloned();
        let is_user = hash.is_some();
        let hash = hash.unwrap_or_else(|| NOBODY.to_owned());
        let key = key(&hash, password);
        if is_user && self.known.lock().is_ok_and(|known| known.contains(&key)) {
            return Ok(true);
        }
        let _turn = self.turns.acquire().await.map_err(|_| Error::new(Kind::Internal, "no turn to compare"))?;
        let password = password.to_owned();
        let matches = blocking(move || Ok(bcrypt::verify(password, &hash).unwrap_or(false))).await?;
        let accepted = is_user && matches;
        if accepted && let Ok(mut known) = self.known.lock() {
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
            known.insert(key);
        }
        Ok(accepted)
    }
}

fn parse(bytes: &[u8]) -> Result<HashMap<String, String>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
    let mut users = HashMap::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (user, hash) = line.split_once(':').ok_or_else(|| format!("line {}: it is not name:hash", at + 1))?;
        if !["$2y$", "$2a$", "$2b$", "$2x$"].iter().any(|kind| hash.starts_with(kind)) {
            return Err(format!("line {}: only bcrypt is taken: use htpasswd -B", at + 1));
        }
        users.insert(user.to_owned(), hash.to_owned());
    }
    Ok(users)
}

fn key(hash: &str, password: &str) -> [u8; 32] {
    // A hash of bcrypt has 60 characters and no zero.
    let digest = digest(&SHA256, format!("{hash}\0{password}").as_bytes());
    let mut key = [0; 32];
    key.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    key
}

/// The hash of a password that nobody knows, with the usual cost.
const NOBODY: &str = "$2y$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy";
const TURNS: usize = 2;
const MAX_KNOWN: usize = 1024;
