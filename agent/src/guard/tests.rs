//! Guards whose name server, certificates or protocol a test chooses.

use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{resolve::Found, *};

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
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async move { answer.ok_or(DnsError::NotFound) })
    }
}

impl Guard {
    /// One that asks `names`.
    pub(crate) fn asking(policy: Policy, names: &Arc<Names>) -> Self {
        Self::routed(Routes { policy, ..Routes::default() }, names)
    }

    /// The same with other ways to go.
    pub(crate) fn routed(routes: Routes, names: &Arc<Names>) -> Self {
        Self::with(routes, names.clone()).unwrap()
    }

    /// One that speaks HTTP/2 without TLS.
    pub(crate) fn speaking_h2(policy: Policy) -> Self {
        let guard = Self::asking(policy, &Names::new(&[]));
        let mut connector = Connector::new(guard.ways.clone(), tls::config(&[]).unwrap());
        connector.assume_h2 = true;
        Self { client: build(connector), ..guard }
    }
}
