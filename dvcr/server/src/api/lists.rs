//! What there is: repositories, tags, referrers.

use dvcr_oci::{Digest, Name, media};
use hyper::StatusCode;
use hyper::header::{HeaderName, LINK};
use serde::Serialize;

use super::answer::{Answer, json, set};
use super::query::encode;
use super::{Api, Call, Query, blocking};
use crate::error::{Error, Kind, Result};

impl Api {
    pub(super) async fn catalog(&self, call: &Call) -> Result<Answer> {
        #[derive(Serialize)]
        struct Catalog<'a> {
            repositories: Vec<&'a str>,
        }
        let page = Page::of(&call.query)?;
        let (store, last) = (self.store.clone(), page.last.clone());
        let most = page.most.unwrap_or(CATALOG);
        let (names, more) = blocking(move || store.repositories(last.as_deref(), most)).await?;
        let catalog = Catalog { repositories: names.iter().map(Name::as_str).collect() };
        let mut answer = json("application/json", &catalog);
        link(&mut answer, "/v2/_catalog", most, names.last().filter(|_| more).map(Name::as_str), "");
        Ok(answer)
    }

    pub(super) async fn tags(&self, name: Name, call: &Call) -> Result<Answer> {
        #[derive(Serialize)]
        struct Tags<'a> {
            name: &'a str,
            tags: Vec<&'a str>,
        }
        let page = Page::of(&call.query)?;
        let (store, last, repository) = (self.store.clone(), page.last.clone(), name.clone());
        let most = page.most.unwrap_or(usize::MAX);
        let (tags, more) = blocking(move || store.tags(&repository, last.as_deref(), most)).await?;
        let list = Tags { name: name.as_str(), tags: tags.iter().map(dvcr_oci::Tag::as_str).collect() };
        let mut answer = json("application/json", &list);
        let next = tags.last().filter(|_| more).map(dvcr_oci::Tag::as_str);
        link(&mut answer, &format!("/v2/{name}/tags/list"), most, next, "");
        Ok(answer)
    }

    pub(super) async fn referrers(&self, name: Name, subject: Digest, call: &Call) -> Result<Answer> {
        let page = Page::of(&call.query)?;
        let wanted: Vec<String> = call.query.all("artifactType").into_iter().map(str::to_owned).collect();
        let (store, repository) = (self.store.clone(), name.clone());
        let mut found = blocking(move || store.referrers(&repository, &subject)).await?;
        if !wanted.is_empty() {
            found.retain(|one| one.artifact_type.as_ref().is_some_and(|kind| wanted.contains(kind)));
        }
        if let Some(last) = &page.last {
            found.retain(|one| one.digest.to_string() > *last);
        }
        let most = page.most.unwrap_or(REFERRERS).clamp(1, REFERRERS);
        let more = found.len() > most;
        found.truncate(most);
        let next = found.last().filter(|_| more).map(|one| one.digest.to_string());
        let mut answer = json(media::OCI_INDEX, &dvcr_oci::Index::new(found));
        *answer.status_mut() = StatusCode::OK;
        let kept: String = wanted.iter().map(|kind| format!("&artifactType={}", encode(kind))).collect();
        link(&mut answer, &format!("/v2/{name}/referrers/{subject}"), most, next.as_deref(), &kept);
        if !wanted.is_empty() {
            set(&mut answer, FILTERS, "artifactType");
        }
        Ok(answer)
    }
}

/// Which part of a list is wanted.
struct Page {
    most: Option<usize>,
    last: Option<String>,
}

impl Page {
    fn of(query: &Query) -> Result<Self> {
        let most = match query.first("n") {
            None | Some("") => None,
            Some(text) => Some(text.parse().map_err(|_| {
                Error::new(Kind::BadRequest, "n says how many are wanted: it is a number that is not negative")
            })?),
        };
        let last = query.first("last").filter(|last| !last.is_empty()).map(str::to_owned);
        Ok(Self { most, last })
    }
}

/// Says where the rest of a list is.
fn link(answer: &mut Answer, path: &str, most: usize, last: Option<&str>, rest: &str) {
    if let Some(last) = last {
        set(answer, LINK, &format!("<{path}?n={most}&last={}{rest}>; rel=\"next\"", encode(last)));
    }
}

/// What is listed where nobody says how much.
const CATALOG: usize = 1000;
/// A page of referrers: each has its annotations with it, and clients read no more than some MiB.
const REFERRERS: usize = 500;
const FILTERS: HeaderName = HeaderName::from_static("oci-filters-applied");
