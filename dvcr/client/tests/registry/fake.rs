//! A registry of a few lines, to be made worse by tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use dvcr_oci::{Descriptor, Digest, ImageConfig, ImageManifest, Index, Platform, media};
use fixtures::http::{Reply, Seen};

/// What it has: shared by its clones.
#[derive(Clone, Default)]
pub struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
pub struct State {
    /// By digest.
    pub blobs: HashMap<String, Vec<u8>>,
    /// By digest and by tag: type and bytes.
    pub manifests: HashMap<String, (String, Vec<u8>)>,
    pub uploads: HashMap<String, Vec<u8>>,
}

impl Fake {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn blob(&self, media_type: &str, bytes: &[u8]) -> Descriptor {
        let descriptor = Descriptor::of(media_type, bytes);
        self.state().blobs.insert(descriptor.digest.to_string(), bytes.to_vec());
        descriptor
    }

    /// Under `name`, unless it is empty.
    pub fn manifest(&self, name: &str, media_type: &str, bytes: &[u8]) -> Descriptor {
        let descriptor = Descriptor::of(media_type, bytes);
        let entry = (media_type.to_owned(), bytes.to_vec());
        self.state().manifests.insert(descriptor.digest.to_string(), entry.clone());
        if !name.is_empty() {
            self.state().manifests.insert(name.into(), entry);
        }
        descriptor
    }

    /// An image with one layer.
    pub fn image(&self, name: &str, platform: &str, layer: &[u8]) -> Descriptor {
        let config = ImageConfig::new(&Platform::parse(platform).unwrap(), vec![Digest::of(layer)]);
        let config = self.blob(media::OCI_CONFIG, &config.to_bytes());
        let manifest = ImageManifest::new(config, vec![self.blob(media::OCI_LAYER, layer)]);
        self.manifest(name, media::OCI_MANIFEST, &manifest.to_bytes())
    }

    pub fn index(&self, name: &str, entries: Vec<Descriptor>) -> Descriptor {
        self.manifest(name, media::OCI_INDEX, &Index::new(entries).to_bytes())
    }

    /// What an honest registry answers.
    pub fn answer(&self, seen: &Seen) -> Reply {
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let mut state = self.state();
        if path == "/v2/" {
            return Reply::ok("{}");
        }
        if let Some((_, name)) = path.split_once("/manifests/") {
            if seen.method == "PUT" {
                let media_type = seen.header("content-type").unwrap().to_owned();
                let digest = Digest::of(&seen.body).to_string();
                for name in [name, &digest] {
                    state.manifests.insert(name.into(), (media_type.clone(), seen.body.clone()));
                }
                return Reply::new(201).header("docker-content-digest", digest);
            }
            return match state.manifests.get(name) {
                None => error(404, "MANIFEST_UNKNOWN", "no such manifest"),
                Some((media_type, bytes)) if seen.method == "HEAD" => head(bytes.len())
                    .header("content-type", media_type)
                    .header("docker-content-digest", Digest::of(bytes).to_string()),
                Some((media_type, bytes)) => Reply::ok(bytes.clone()).header("content-type", media_type),
            };
        }
        if let Some((_, session)) = path.split_once("/blobs/uploads/") {
            return upload(&mut state, seen, session, query);
        }
        if let Some((_, digest)) = path.split_once("/blobs/") {
            return match state.blobs.get(digest) {
                None if seen.method == "HEAD" => Reply::new(404),
                None => error(404, "BLOB_UNKNOWN", "no such blob"),
                Some(bytes) if seen.method == "HEAD" => head(bytes.len()),
                Some(bytes) => fixtures::http::Object::new(bytes.clone()).etag(None).answer(seen),
            };
        }
        error(404, "NAME_UNKNOWN", "no such name")
    }
}

fn upload(state: &mut State, seen: &Seen, session: &str, query: &str) -> Reply {
    let location = |session: &str, len: usize| {
        let reply = Reply::new(202).header("location", format!("/v2/x/blobs/uploads/{session}?_state=s%3D{len}"));
        reply.header("range", format!("0-{}", len.saturating_sub(1)))
    };
    match seen.method.as_str() {
        "POST" => {
            let session = format!("session-{}", state.uploads.len());
            state.uploads.insert(session.clone(), Vec::new());
            location(&session, 0)
        }
        _ if !state.uploads.contains_key(session) => error(404, "BLOB_UPLOAD_UNKNOWN", "no such upload"),
        "GET" => location(session, state.uploads[session].len()),
        "DELETE" => {
            state.uploads.remove(session);
            Reply::new(204)
        }
        "PATCH" | "PUT" => {
            assert!(query.contains("_state=s%3D"), "the location as it was given: {query}");
            let bytes = state.uploads.get_mut(session).unwrap();
            if let Some(range) = seen.header("content-range") {
                let start: usize = range.split_once('-').unwrap().0.parse().unwrap();
                if start != bytes.len() {
                    return error(416, "BLOB_UPLOAD_INVALID", "out of order");
                }
            }
            bytes.extend_from_slice(&seen.body);
            if seen.method == "PATCH" {
                return location(session, bytes.len());
            }
            let bytes = state.uploads.remove(session).unwrap();
            let digest = query.split('&').find_map(|pair| pair.strip_prefix("digest=")).unwrap().replace("%3A", ":");
            if !digest.parse::<Digest>().unwrap().proves(&bytes) {
                return error(400, "DIGEST_INVALID", "provided digest did not match uploaded content");
            }
            state.blobs.insert(digest, bytes);
            Reply::new(201)
        }
        _ => Reply::new(405),
    }
}

pub fn error(status: u16, code: &str, message: &str) -> Reply {
    let body = format!(r#"{{"errors":[{{"code":"{code}","message":"{message}","detail":null}}]}}"#);
    Reply::new(status).header("content-type", "application/json").body(body)
}

/// The answer to a HEAD of something so long.
fn head(len: usize) -> Reply {
    Reply::new(200).claim(len as u64)
}
