//! The operator under observation: informers of each kind, a controller, and what comes and goes.
//!
//! ```text
//! stdin: commands ──▶ Observed { operator, views, controller, visitors } ──▶ stdout: replies
//! ```
//!
//! It makes no trouble by itself but what users' programs do: a handler that is slow, one that
//! panics now and then, handlers, streams and informers that come and go. It ends with its stdin,
//! so it does not outlive the driver.

mod child;
mod compare;
mod views;
mod visitors;
mod witness;

pub(crate) use self::witness::{WRITTEN, now};

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::{Informer, InformerFactory, Target};
use kinform_operator::{
    CertificateFiles, Error, LeaseSettings, MetricsAccess, Operator, Settings, When,
};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use self::compare::Compared;
use self::views::View;
use self::visitors::Visitors;
use self::witness::Witness;
use crate::Failure;
use crate::sample::{Command, Percentiles, Reply, Sample, Usage};

/// Requests a second, and their burst: each change of a parent is a write.
const RATE: (u32, u32) = (1_000, 2_000);
/// BOUND: the time that caches have to equal the server at rest.
const CONVERGENCE: Duration = Duration::from_secs(60);
/// BOUND: the time that handlers have at the stop.
const HANDLERS: Duration = Duration::from_secs(5);

/// The operator's files.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The kubeconfig; its user has a token file
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The certificate of the metrics
    #[arg(long)]
    certificate: PathBuf,
    /// The key of that certificate
    #[arg(long)]
    key: PathBuf,
}

/// The operator and everything in it that is observed.
struct Observed {
    operator: Operator,
    /// Factories of its own kinds of informers.
    factories: Vec<InformerFactory>,
    views: Vec<View>,
    parents: Informer<ConfigMap>,
    children: Informer<Secret>,
    witness: Arc<Witness>,
    visitors: Visitors,
}

/// Runs the operator until the command to stop, or the end of stdin.
///
/// # Errors
/// The operator fails, or a command is not one.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    witness::hide_planned_panics();
    tracing_subscriber::fmt()
        .with_env_filter(log_filter())
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let observed = Observed::new(&arguments).await?;
    let stop = CancellationToken::new();
    let operator = observed.operator.clone();
    let ended = stop.clone();
    let mut running = tokio::spawn(async move { operator.run_until(ended).await });
    for factory in &observed.factories {
        factory.start()?;
    }
    tokio::select! {
        biased;
        ended = &mut running => {
            ended??;
            return Err("the operator ended by itself".into());
        }
        obeyed = observed.obey() => obeyed?,
    }
    stop.cancel();
    for factory in &observed.factories {
        factory.shutdown_within(HANDLERS).await;
    }
    running.await??;
    Ok(())
}

impl Observed {
    async fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let operator = Operator::builder("soak")
            .settings(settings(arguments))
            .try_default()
            .await?;
        let witness = Arc::<Witness>::default();
        let own = operator.factory();
        let parents = Target::<ConfigMap>::new();
        let parents = own.select(parents).labels(child::PARENTS).build();
        let children = own.informer::<Secret>();
        let (factories, views) = views::all(&operator, &witness)?;
        operator.add(child::controller(&parents, &children, &witness))?;
        count_terms(&operator, &witness)?;
        let visitors = Visitors::start(own.clone(), &views, Arc::clone(&witness));
        Ok(Self {
            operator,
            factories,
            views,
            parents,
            children,
            witness,
            visitors,
        })
    }

    /// Carries out commands until the one to stop, or the end of stdin.
    async fn obey(&self) -> Result<(), Failure> {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Some(line) = lines.next_line().await? {
            let reply = match serde_json::from_str(&line)? {
                Command::Sample => Reply::Sample(Box::new(self.sample().await)),
                Command::Load => {
                    self.visitors.come();
                    Reply::Done
                }
                Command::Rest => {
                    self.visitors.rest().await;
                    Reply::Done
                }
                Command::Compare => Reply::Compared(self.compare().await),
                Command::Stop => return Ok(()),
            };
            let mut line = serde_json::to_string(&reply)?;
            line.push('\n');
            let mut out = std::io::stdout().lock();
            out.write_all(line.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }

    async fn compare(&self) -> Vec<String> {
        let compared = Compared {
            client: self.operator.unguarded(),
            views: &self.views,
            parents: &self.parents,
            children: &self.children,
        };
        compared.differences(CONVERGENCE).await
    }

    fn informer_tasks(&self) -> u64 {
        let own = std::iter::once(self.operator.factory());
        let tasks = own.chain(&self.factories).map(InformerFactory::task_count);
        tasks.sum::<usize>() as u64
    }

    async fn sample(&self) -> Sample {
        let witness = &self.witness;
        let stats: Vec<_> = self
            .views
            .iter()
            .map(|view| view.informer.stats())
            .collect();
        let registrations = self.views.iter().flat_map(|view| &view.registrations);
        let (contradictions, contradiction) = witness.contradictions();
        let bound = tokio::time::timeout(Duration::from_millis(10), self.operator.addresses());
        let metrics = bound.await.ok().and_then(|addresses| addresses.metrics);
        Sample {
            usage: Usage::of(None),
            live_bytes: crate::live_bytes(),
            tasks: tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks() as u64,
            informer_tasks: self.informer_tasks(),
            metrics_port: metrics.map_or(0, |address| address.port()),
            is_leading: self.operator.term().is_some(),
            terms: witness.terms.load(Ordering::Relaxed),
            has_synced: self.views.iter().all(|view| view.informer.has_synced()),
            objects: stats.iter().map(|stats| stats.objects).sum(),
            relists: stats.iter().map(|stats| stats.relists).sum(),
            reopens: stats.iter().map(|stats| stats.reopens).sum(),
            heard: witness.heard(),
            panics: registrations.clone().map(|one| one.panics()).sum(),
            times_behind: registrations.map(|one| one.times_behind()).sum(),
            visits: witness.visits.load(Ordering::Relaxed),
            reconciles: witness.reconciles.load(Ordering::Relaxed),
            lag_ms: Percentiles::of(witness.take_lags()),
            contradictions,
            contradiction,
        }
    }
}

/// Every part that an operator can have: leader election, probes, and metrics over TLS whose callers
/// are reviewed.
fn settings(arguments: &Arguments) -> Settings {
    let mut settings = Settings::default();
    settings.connection.kubeconfig = Some(arguments.kubeconfig.clone());
    settings.request_rate = RATE;
    settings.probe_address = Some("127.0.0.1:0".to_owned());
    settings.metrics_address = Some("127.0.0.1:0".to_owned());
    settings.metrics_access = MetricsAccess::Reviewed;
    settings.metrics_certificate = Some(CertificateFiles::new(
        &arguments.certificate,
        &arguments.key,
    ));
    settings.leader_election = Some(LeaseSettings::default());
    settings
}

/// `RUST_LOG`, else warnings.
fn log_filter() -> EnvFilter {
    EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .from_env_lossy()
}

/// A task of the leader that counts terms.
fn count_terms(operator: &Operator, witness: &Arc<Witness>) -> Result<(), Error> {
    let witness = Arc::clone(witness);
    let count = move |end: CancellationToken| {
        witness.terms.fetch_add(1, Ordering::Relaxed);
        async move {
            end.cancelled().await;
            Ok::<_, Failure>(())
        }
    };
    operator.task("terms", When::Leading, count).map(drop)
}
