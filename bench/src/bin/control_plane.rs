//! Measures the embedded server and its controllers, and writes the results:
//! `cargo xtask bench control-plane`.
//!
//! ```text
//! control_plane [--only NAME] ─▶ scenarios, one after the other ─▶ bench/results/control-plane.json
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kinform_apiserver::{Server, User};
use kinform_bench::control_plane::creates::{CONNECTIONS, a_second, micros_each};
use kinform_bench::control_plane::deployments::{all_available, one_available};
use kinform_bench::control_plane::hooks::Hook;
use kinform_bench::control_plane::served::Served;
use kinform_bench::machine::{commit, machine};
use kinform_bench::operators::cluster::Cluster;
use kinform_bench::row::{Results, Row, median};
use kinform_bench::subject::Failed;
use kinform_controlplane::{ControlPlane, Selection, client_of};
use kube::api::{Api, DeleteParams, PostParams};

/// Measures the embedded server and its controllers.
#[derive(Debug, Parser)]
struct Arguments {
    /// Runs of what takes a second or less; the median counts.
    #[arg(long, default_value_t = 11)]
    turns: usize,
    /// Runs of what takes longer.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Deployments of the crowd, five pods each.
    #[arg(long, default_value_t = 1_000)]
    deployments: usize,
    /// Nodes of the crowd.
    #[arg(long, default_value_t = 200)]
    nodes: usize,
    /// Creations of each run over many connections.
    #[arg(long, default_value_t = 40_000)]
    creations: usize,
    /// Creations of each run with and without a webhook.
    #[arg(long, default_value_t = 2_000)]
    reviewed: usize,
    /// Only scenarios whose name begins so; may be given several times.
    #[arg(long)]
    only: Vec<String>,
    /// Also create objects on this server, for comparison; they stay there.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The program `kinform`; by default the one beside this one.
    #[arg(long)]
    kinform: Option<PathBuf>,
    /// The repository's `bench/`.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    // An error means that one was chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = Arguments::parse();
    let kinform = match &arguments.kinform {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("kinform"),
    };
    let bench = Bench {
        home: tempfile::tempdir()?,
        results: Results {
            commit: commit().await,
            machine: machine(),
            rows: Vec::new(),
        },
        kinform,
        arguments,
    };
    bench.run().await
}

/// The scenarios and what they found.
struct Bench {
    arguments: Arguments,
    kinform: PathBuf,
    home: tempfile::TempDir,
    results: Results,
}

impl Bench {
    async fn run(mut self) -> Result<(), Failed> {
        if self.is_wanted("available") {
            self.available().await?;
        }
        if self.is_wanted("crowd") {
            self.crowd().await?;
        }
        if self.is_wanted("webhook") {
            self.webhook().await?;
        }
        if self.is_wanted("creates") {
            self.creates().await?;
        }
        Ok(())
    }

    fn is_wanted(&self, name: &str) -> bool {
        let only = &self.arguments.only;
        only.is_empty() || only.iter().any(|start| name.starts_with(start.as_str()))
    }

    async fn serve(&self, flags: &[&str]) -> Result<Served, Failed> {
        Served::start(&self.kinform, self.home.path(), flags).await
    }

    /// From the start of the process, and from the creation, to a Deployment of three that is available.
    async fn available(&mut self) -> Result<(), Failed> {
        let mut seconds = Vec::new();
        for _ in 0..self.arguments.turns {
            let served = self.serve(&["--controllers"]).await?;
            one_available(&served.cluster.client, "first").await?;
            seconds.push(served.started.elapsed().as_secs_f64());
            served.stop().await?;
        }
        self.add("available-from-start", "seconds", "s", seconds)?;
        let server = Server::builder()
            .plain()
            .with_kubelets()
            .with_namespace_content()
            .in_process();
        let client = |name: &str| {
            let service = server.service_as(User::new(name).with_group("system:masters"));
            client_of(move |request| {
                let service = service.clone();
                async move { service.call(request).await }
            })
        };
        let running = ControlPlane::new(client, &Selection::all())?
            .start()
            .await?;
        let client = client("system:admin");
        let mut seconds = Vec::new();
        for turn in 0..=self.arguments.turns {
            let started = Instant::now();
            one_available(&client, &format!("turn-{turn}")).await?;
            seconds.push(started.elapsed().as_secs_f64());
        }
        running.stop().await?;
        // The first one fills caches of compiled rules.
        self.add("available-in-process", "seconds", "s", seconds.split_off(1))
    }

    /// Many Deployments at once.
    async fn crowd(&mut self) -> Result<(), Failed> {
        let (nodes, deployments) = (self.arguments.nodes, self.arguments.deployments);
        let (mut cpu, mut wall, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.arguments.runs {
            let served = self.serve(&["--controllers"]).await?;
            let before = served.cpu_seconds()?;
            let started = Instant::now();
            all_available(&served.cluster.client, nodes, (deployments, 5)).await?;
            wall.push(started.elapsed().as_secs_f64());
            cpu.push(served.cpu_seconds()? - before);
            memory.push(served.peak_bytes()? as f64);
            served.stop().await?;
        }
        let name = format!("crowd-{deployments}x5");
        self.add(&name, "cpu_seconds", "s", cpu)?;
        self.add(&name, "wall_seconds", "s", wall)?;
        self.add(&name, "peak_bytes", "B", memory)
    }

    /// A creation without a webhook, with one that does not match, and with one that is asked.
    async fn webhook(&mut self) -> Result<(), Failed> {
        let served = self.serve(&[]).await?;
        let client = &served.cluster.client;
        served.cluster.fill(0).await?;
        let hook = Hook::start().await?;
        let hooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let (mut first, count) = (0, self.arguments.reviewed);
        let mut runs = [const { Vec::new() }; 3];
        micros_each(client, 900_000, count / 4).await?;
        // In turns, so that what else the machine does meets all alike.
        for _ in 0..self.arguments.turns {
            for (resource, runs) in [None, Some("secrets"), Some("configmaps")]
                .into_iter()
                .zip(&mut runs)
            {
                let made = match resource {
                    None => None,
                    Some(resource) => {
                        let configuration = serde_json::from_value(hook.configuration(resource))?;
                        Some(hooks.create(&PostParams::default(), &configuration).await?)
                    }
                };
                // One that opens the connection.
                micros_each(client, first + count, 1).await?;
                runs.push(median(&micros_each(client, first, count).await?));
                first += count + 1;
                if let Some(name) = made.and_then(|made| made.metadata.name) {
                    hooks.delete(&name, &DeleteParams::default()).await?;
                }
            }
        }
        let [without, unmatched, asked] = runs;
        let over = |with: &[f64]| with.iter().zip(&without).map(|(w, o)| w - o).collect();
        let share = |with: &[f64]| with.iter().zip(&without).map(|(w, o)| w / o).collect();
        let (asked_over, unmatched_share) = (over(&asked), share(&unmatched));
        served.stop().await?;
        self.add("webhook-none", "micros", "us", without)?;
        self.add("webhook-unmatched", "of_none", "x", unmatched_share)?;
        self.add("webhook-asked", "micros_over_none", "us", asked_over)
    }

    /// Creations a second: in memory, on disk, and by another server.
    async fn creates(&mut self) -> Result<(), Failed> {
        let creations = self.arguments.creations;
        let folder = self.home.path().join("data");
        let data_dir = format!("--data-dir={}", folder.display());
        let flags: [(&str, Vec<&str>); 3] = [
            ("creates-memory", vec![]),
            ("creates-disk-unsynced", vec![&data_dir, "--fsync=false"]),
            ("creates-disk", vec![&data_dir]),
        ];
        let mut runs = [const { Vec::new() }; 4];
        let peer = match &self.arguments.kubeconfig {
            Some(kubeconfig) => Some(Cluster::of(kubeconfig).await?),
            None => None,
        };
        for turn in 0..self.arguments.runs {
            for ((_, flags), runs) in flags.iter().zip(&mut runs) {
                clear(&folder)?;
                let flags: Vec<OsString> = flags.iter().map(OsString::from).collect();
                let served = Served::start(&self.kinform, self.home.path(), &flags).await?;
                served.cluster.fill(0).await?;
                a_second(&served.cluster.client, 900_000, CONNECTIONS * 10).await?;
                runs.push(a_second(&served.cluster.client, 0, creations).await?);
                served.stop().await?;
            }
            if let Some(peer) = &peer {
                peer.fill(0).await?;
                let first = turn * creations;
                runs[3].push(a_second(&peer.client, first, creations / 4).await?);
            }
        }
        let [memory, unsynced, synced, others] = runs;
        for ((name, _), runs) in flags.iter().zip([memory, unsynced, synced]) {
            let ratios: Vec<f64> = runs.iter().zip(&others).map(|(r, o)| r / o).collect();
            self.add(name, "creates_per_second", "1/s", runs)?;
            if !ratios.is_empty() {
                self.add(name, "over_real", "x", ratios)?;
            }
        }
        match others.is_empty() {
            true => Ok(()),
            false => self.add("creates-real", "creates_per_second", "1/s", others),
        }
    }

    /// Adds a figure, prints it, and writes all of them: a run takes long.
    fn add(&mut self, name: &str, metric: &str, unit: &str, runs: Vec<f64>) -> Result<(), Failed> {
        let value = median(&runs);
        eprintln!("control-plane: {name} {metric}: {value} {unit} of {runs:?}");
        self.results.rows.push(Row {
            scenario: name.to_owned(),
            subject: "kinform".to_owned(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value,
            runs,
        });
        self.results.machine = machine();
        let name = match self.arguments.only.is_empty() {
            true => "control-plane.json",
            false => "part-control-plane.json",
        };
        let text = serde_json::to_string_pretty(&self.results)?;
        let path = self.arguments.directory.join("results").join(name);
        Ok(std::fs::write(path, text + "\n")?)
    }
}

fn clear(folder: &Path) -> Result<(), Failed> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
