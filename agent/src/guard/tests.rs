//! Guards whose name server, certificates or protocol a test chooses.

use std::{
    collections::VecDeque,
    io,
    net::IpAddr,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{
    resolve::{Found, Lookup},
    *,
};

/// A name server that gives these answers one after the other, and then none.
#[derive(Default)]
pub(crate) struct Names {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    hangs_on: Mutex<Option<String>>,
    asked: AtomicUsize,
}

impl Names {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Self> {
        let answer = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self { answers: Mutex::new(answers.iter().map(answer).collect()), ..Self::default() })
    }

    /// From now on it never answers for this name.
    pub(crate) fn hang_on(&self, name: &str) {
        *self.hangs_on.lock().unwrap() = Some(name.to_owned());
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Lookup for Names {
    fn addresses(&self, name: String) -> Found {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.hangs_on.lock().unwrap().as_ref() == Some(&name) {
            return Box::pin(std::future::pending());
        }
        let answer = self.answers.lock().unwrap().pop_front().ok_or(io::Error::other("no such name"));
        Box::pin(async move { answer })
    }
}

impl Guard {
    /// One that asks `names`, and whose client is changed by `change`.
    pub(crate) fn rigged(policy: Policy, names: &Arc<Names>, change: fn(ClientBuilder) -> ClientBuilder) -> Self {
        Self::trusting(policy, names, &[], change)
    }

    /// One that also trusts certificates, each in DER.
    pub(crate) fn trusting(
        policy: Policy,
        names: &Arc<Names>,
        roots: &[&[u8]],
        change: fn(ClientBuilder) -> ClientBuilder,
    ) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let lookup: Arc<dyn Lookup> = names.clone();
        let roots = roots.iter().map(|root| Certificate::from_der(root).unwrap());
        let client = change(builder(&policy, &lookup).tls_certs_merge(roots)).build().unwrap();
        Self { policy, client }
    }
}
