//! Uploads that are under way, and their common end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dvcr_transport::{self as transport, Address, Ask, Method};
use tokio::sync::watch;

use crate::auth::Auth;
use crate::repository::Repository;
use crate::server::Failure;

/// What is being pushed by way of a [`Repository`] and its clones, so that somebody else can end it.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    open: Mutex<Open>,
    given_up: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    /// Where each was when the registry last said so. Those that failed stay here.
    addresses: BTreeMap<u64, (Arc<Auth>, Address)>,
}

impl Uploads {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more; its number.
    pub(crate) fn begin(&self) -> u64 {
        let mut open = self.open();
        open.last += 1;
        open.last
    }

    /// It is to be gone on with there.
    pub(crate) fn moved(&self, id: u64, auth: &Arc<Auth>, address: &Address) {
        let mut open = self.open();
        if open.addresses.len() >= MAX_OPEN {
            open.addresses.pop_first();
        }
        open.addresses.insert(id, (Arc::clone(auth), address.clone()));
    }

    /// There is nothing left of it to be ended.
    pub(crate) fn ended(&self, id: u64) {
        self.open().addresses.remove(&id);
    }

    /// Does it, unless all is given up, now or meanwhile: then it is dropped where it is.
    pub(crate) async fn unless_given_up<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut given_up = self.given_up.subscribe();
        tokio::select! {
            biased;
            _ = given_up.wait_for(|given_up| *given_up) => {
                Err(transport::Error::new(transport::Kind::Forbidden, "the push was given up").into())
            }
            done = work => done,
        }
    }
}

impl Repository {
    /// Gives up all that is being pushed by way of this and its clones, from any task: what is on its way is cut, nothing
    /// is begun or tagged any more, and the registry is told to forget the uploads. They need no more than two requests
    /// each; how long to wait for a registry that does not answer is for the caller to say.
    pub async fn give_up(&self) {
        self.uploads.given_up.send_replace(true);
        loop {
            let next = self.uploads.open().addresses.pop_first();
            let Some((_, (auth, address))) = next else { return };
            let mut address = address;
            for _ in 0..FORGETS {
                let Err(failure) = self.forget(&auth, &address).await else { break };
                if matches!(failure.status(), Some(404 | 410)) {
                    break;
                }
                // Some have to find out first that what was on its way is cut, and want the address that follows from it.
                tokio::time::sleep(MOMENT).await;
                let asked = self.server.once(&auth, &address, &|| Ask::new(Method::Get), &[200, 202, 204]).await;
                if let Ok(Ok(Some(next))) = asked.map(|reply| reply.location()) {
                    address = next;
                }
            }
        }
    }

    /// Tells the registry to forget an upload, once.
    pub(crate) async fn forget(&self, auth: &Auth, address: &Address) -> Result<(), Failure> {
        self.server.once(auth, address, &|| Ask::new(Method::Delete), &[200, 202, 204]).await.map(drop)
    }
}

/// More were never begun at once; of some that failed only the registry knows then.
const MAX_OPEN: usize = 64;
const FORGETS: usize = 5;
const MOMENT: Duration = Duration::from_millis(50);
