//! One run: the product, then both baselines, one after another on the same machine and against the same receiver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use posthaste_bench::options::Options;
use posthaste_bench::processes::Usage;
use posthaste_bench::report::{Document, Machine};

use super::counter::Counter;
use super::{baseline, product};
use crate::local::Folder;
use crate::terminal::note;

/// Whoever delivers less than this many a second has got stuck.
const SLOWEST_PER_S: u32 = 20;

/// What has been used so far, by process.
pub(super) type Usages = BTreeMap<String, Usage>;

/// Measures everybody in this folder.
pub(super) async fn run(folder: &Path, options: &Options, postgres_bin: Option<PathBuf>) -> Result<Document> {
    let mut counter = Counter::start(&Folder::prepare(&folder.join("receiver"))?).await?;
    let mut results = BTreeMap::new();
    for mode in options.modes() {
        let name = mode.as_str();
        note(&format!("measuring the product, {name}: {} deliveries", options.deliveries));
        let folder = Folder::prepare(&folder.join(name))?;
        let measured = product::measure(&folder, &mut counter, options, *mode, postgres_bin.clone()).await?;
        results.insert(name.to_owned(), measured.figures());
    }
    note("measuring the naive pipe");
    let pipe = Folder::prepare(&folder.join("pipe"))?;
    let (measured, version) = baseline::pipe(&pipe, &mut counter, options, postgres_bin).await?;
    results.insert("pipe".to_owned(), measured.figures());
    note("measuring the bare loop");
    let bare_loop = Folder::prepare(&folder.join("bare-loop"))?;
    let measured = baseline::bare_loop(&bare_loop, &mut counter, options).await?;
    results.insert("bare_loop".to_owned(), measured.figures());
    Ok(Document::new(options.clone(), Machine::this(version), results))
}

/// How long the deliveries may take.
pub(super) fn limit(options: &Options) -> Duration {
    Duration::from_secs(60 + u64::from(options.deliveries / SLOWEST_PER_S))
}

/// What was used between two moments. Whoever came in between has used all of it.
pub(super) fn used(before: &Usages, after: Usages) -> Usages {
    after
        .into_iter()
        .map(|(name, used)| (name.clone(), used - before.get(&name).copied().unwrap_or_default()))
        .collect()
}
