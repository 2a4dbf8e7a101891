//! F30: a program that keeps its cache on disk, and loses its process, its power or its disk.
//!
//! ```text
//! informer ──▶ file ──damaged, of an earlier time, gone, nowhere to write──▶ next informer ──▶ agrees
//! ```
//!
//! The folder is a real one. Time is paused, and waits for the files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::env::Env;
use kinform::{DiskCache, Informer, InformerFactory, Registration, ReportEvent, Target};
use kinform_testkit::checks::event_checker::EventChecker;
use kinform_testkit::checks::stage::StageError;
use tempfile::TempDir;

use super::{Cell, Check, SECOND, Stand, agree, check, each};

/// A run of the program: an informer whose cache is on disk, and what its handler heard.
struct Program {
    factory: InformerFactory,
    informer: Informer<ConfigMap>,
    witness: EventChecker,
    failures: Arc<AtomicUsize>,
    _registration: Registration,
}

impl Program {
    fn start(stand: &Stand, cell: Cell, dir: &Path) -> Result<Self, StageError> {
        let disk = DiskCache::in_dir(dir).cluster("test").user("me");
        let factory = InformerFactory::builder(stand.direct())
            .disk_cache(disk.period(60 * SECOND))
            .wire(cell.wire)
            .fifo(cell.policy)
            .reflector(cell.options())
            .env(Env::seeded(7))
            .build();
        let informer = factory.select(Target::<ConfigMap>::new()).build();
        let witness = EventChecker::new("the program's handler");
        let registration = informer.add_handler(witness.handlers())?;
        let failures = Arc::new(AtomicUsize::new(0));
        let (mut reports, counted) = (informer.reports(), Arc::clone(&failures));
        tokio::spawn(async move {
            while let Some(report) = reports.next().await {
                let is_failure = matches!(report.event, ReportEvent::SnapshotFailed { .. });
                counted.fetch_add(usize::from(is_failure), Ordering::Relaxed);
            }
        });
        factory.start()?;
        Ok(Self {
            factory,
            informer,
            witness,
            failures,
            _registration: registration,
        })
    }

    /// The times that the cache could not be written.
    fn failures(&self) -> usize {
        self.failures.load(Ordering::Relaxed)
    }

    /// Handler and cache have what the server has, and follow it.
    async fn agrees(&self, stand: &mut Stand) -> Check {
        agree(
            &mut stand.writer,
            &self.witness,
            &self.informer,
            10 * SECOND,
        )
        .await?;
        stand.change(10).await?;
        agree(&mut stand.writer, &self.witness, &self.informer, SECOND).await?;
        check(self.informer.has_synced(), || {
            format!("{}", self.informer.state())
        })
    }

    async fn end(self) -> Check {
        self.witness.check()?;
        self.factory.shutdown().await;
        let tasks = self.factory.task_count();
        check(tasks == 0, || format!("{tasks} tasks are left"))
    }
}

/// A whole run; `resumes` and `lists` are how often it went on from the file, and listed.
async fn run(stand: &mut Stand, cell: Cell, dir: &Path, (resumes, lists): (u64, u64)) -> Check {
    let program = Program::start(stand, cell, dir)?;
    program.agrees(stand).await?;
    let stats = program.informer.stats();
    check((stats.resumed, stats.lists) == (resumes, lists), || {
        format!("{stats:?}")
    })?;
    program.end().await
}

/// The file of the cache, which is there.
fn file(dir: &Path) -> Result<PathBuf, StageError> {
    let mut entries = fs::read_dir(dir)?;
    let entry = entries.next().ok_or("no cache was written")??;
    Ok(entry.path())
}

/// A run that leaves the file of the middle of its life, as one that was killed then does.
async fn killed(stand: &mut Stand, cell: Cell, dir: &Path) -> Result<Vec<u8>, StageError> {
    let program = Program::start(stand, cell, dir)?;
    program.agrees(stand).await?;
    tokio::time::sleep(120 * SECOND).await;
    let bytes = fs::read(file(dir)?)?;
    program.agrees(stand).await?;
    stand
        .delete("/api/v1/namespaces/apple/configmaps/mark")
        .await?;
    program.end().await?;
    fs::write(file(dir)?, &bytes)?;
    Ok(bytes)
}

#[test]
fn f30_a_lost_process_and_a_damaged_or_lost_disk_cost_at_most_a_list() {
    let line = "F30 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        let folder = TempDir::new()?;
        let dir = folder.path();
        let good = killed(&mut stand, cell, dir).await?;

        // It goes on from that moment, without a list.
        run(&mut stand, cell, dir, (1, 0)).await?;

        let mut changed = good.clone();
        let middle = good.len() / 2;
        changed[middle] ^= 1;
        let torn = good[..middle].to_vec();
        for bytes in [changed, torn, Vec::new()] {
            fs::write(file(dir)?, bytes)?;
            run(&mut stand, cell, dir, (0, 1)).await?;
        }

        // The folder is gone, and then none can be made, as on a disk that takes nothing more.
        fs::remove_dir_all(dir)?;
        let program = Program::start(&stand, cell, dir)?;
        program.agrees(&mut stand).await?;
        tokio::time::sleep(120 * SECOND).await;
        fs::remove_dir_all(dir)?;
        fs::write(dir, "no folder")?;
        program.agrees(&mut stand).await?;
        tokio::time::sleep(120 * SECOND).await;
        check(program.failures() > 0, || "no failure is told".to_owned())?;
        program.agrees(&mut stand).await?;
        // It is tried again.
        fs::remove_file(dir)?;
        tokio::time::sleep(120 * SECOND).await;
        file(dir)?;
        fs::remove_dir_all(dir)?;
        fs::write(dir, "no folder")?;
        program.end().await?;
        run(&mut stand, cell, dir, (0, 1)).await?;
        fs::remove_file(dir)?;
        stand.end().await
    });
}
