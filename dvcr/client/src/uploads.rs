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
    stage: watch::Sender<Stage>,
    /// How many requests are on their way.
    running: watch::Sender<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    /// What is on its way may come to its end, and nothing is begun any more.
    Ending,
    /// What is on its way is cut.
    Cut,
}

/// One request on its way.
struct Running<'a>(&'a watch::Sender<usize>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
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

    /// Does it, unless all is given up: then it is not begun, or dropped where it is if it takes long.
    pub(crate) async fn unless_given_up<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let given_up = || transport::Error::new(transport::Kind::Forbidden, "the push was given up").into();
        let mut stage = self.stage.subscribe();
        self.running.send_modify(|running| *running += 1);
        let _running = Running(&self.running);
        if *stage.borrow() != Stage::Open {
            return Err(given_up());
        }
        tokio::select! {
            biased;
            _ = stage.wait_for(|stage| *stage == Stage::Cut) => Err(given_up()),
            done = work => done,
        }
    }

    /// Lets what is on its way come to its end, but not for long.
    async fn end(&self) {
        self.stage.send_replace(Stage::Ending);
        let mut running = self.running.subscribe();
        let ended = running.wait_for(|running| *running == 0);
        if tokio::time::timeout(GRACE, ended).await.is_err() {
            self.stage.send_replace(Stage::Cut);
        }
    }
}

impl Repository {
    /// Gives up all that is being pushed by way of this and its clones, from any task: nothing is begun or tagged any more,
    /// what is on its way is cut after a second, and the registry is told to forget the uploads. How long to wait for a
    /// registry that does not answer is for the caller to say.
    ///
    /// A request that is cut leaves some registries with an upload that they let nobody touch: hence the second.
    pub async fn give_up(&self) {
        self.uploads.end().await;
        loop {
            let next = self.uploads.open().addresses.pop_first();
            let Some((_, (auth, address))) = next else { return };
            self.forget(&auth, address).await;
        }
    }

    /// Tells the registry to forget an upload, as well as that can be done.
    pub(crate) async fn forget(&self, auth: &Auth, mut address: Address) {
        for _ in 0..FORGETS {
            let told = self.server.once(auth, &address, &|| Ask::new(Method::Delete), &[200, 202, 204]).await;
            let Err(failure) = told else { return };
            if failure.code() == "BLOB_UPLOAD_UNKNOWN" || matches!(failure.status(), Some(405 | 410 | 501)) {
                return;
            }
            tracing::debug!(error = %failure.error, "an upload is not forgotten");
            // It may have to find out first that something was cut, and want the address that follows from it.
            tokio::time::sleep(MOMENT).await;
            let asked = self.server.once(auth, &address, &|| Ask::new(Method::Get), &[200, 202, 204]).await;
            if let Ok(Ok(Some(next))) = asked.map(|reply| reply.location()) {
                address = next;
            }
        }
    }
}

/// How long a request has that is on its way: a chunk takes less where the network is worth its name.
const GRACE: Duration = Duration::from_secs(1);
/// More were never begun at once; of some that failed only the registry knows then.
const MAX_OPEN: usize = 64;
const FORGETS: usize = 3;
const MOMENT: Duration = Duration::from_millis(50);
