//! `kinform serve`: only the API server, with controllers if asked.
//!
//! ```text
//! flags → Server (its folder read, seeded, loaded) → controllers → kubeconfig file
//!   → until a signal, or the child's end
//!           └─▶ faults, admin path, journal file
//! ```
//!
//! The kubeconfig appears complete and only when the server answers, so a script can wait for the
//! file. A command behind `--` runs with KUBECONFIG set, and its exit code becomes that of
//! `kinform`.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, Once, PoisonError};

use kinform_apiserver::{DataDir, Record, Seed, Server, SyncMode};
use kinform_controlplane::{ControllerName, Selection};
use tokio::process::Command;

use crate::args::serve::{KubeletMode, ServeArgs};
use crate::controllers;
use crate::exit::{Ending, Failure};
use crate::files::{self, TemporaryFile};
use crate::manifest::{self, Existing, Folders};
use crate::signals::Signals;

/// BOUND: bytes of a token file: its 10,000 lines have 400 each.
const MAX_TOKEN_FILE: u64 = 4 << 20;

/// Runs the server until a signal or the end of its child.
pub(crate) async fn run(args: ServeArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    // Read before the server listens: a typing mistake should not leave a server half filled.
    let folders = match args.recursive {
        true => Folders::All,
        false => Folders::Top,
    };
    let manifests = tokio::select! {
        biased;
        ending = signals.ending() => return Ok(ending),
        read = manifest::read(args.load.clone(), folders) => read?,
    };
    let (server, existing) = start(&args).await?;
    if let Some(pods) = args.pods {
        let started = std::time::Instant::now();
        server.seed(Seed {
            seed: 1,
            nodes: (pods / 50).clamp(1, 5_000),
            deployments: (pods / 10).clamp(1, 10_000),
            pods,
        });
        crate::progress!(
            "seeded {pods} pods in {:.1} s",
            started.elapsed().as_secs_f64()
        );
    }
    let loaded = manifest::load(&server, &manifests, existing).await?;
    if !manifests.is_empty() {
        crate::progress!("loaded {loaded} objects");
    }
    let settled = server.settled().await;
    settled.map_err(|status| Failure::new(status.message))?;
    let running = controllers::start(&server, selection(&args).as_ref()).await?;
    // Faults begin here, so the requests that filled the server met none.
    for rule in &args.fault {
        server.faults().inject(rule.clone());
    }
    server.journal().clear();
    let temporary;
    let kubeconfig = match (&args.write_kubeconfig, args.command.is_empty()) {
        (Some(path), _) => Some(path.clone()),
        (None, false) => {
            temporary = TemporaryFile::new("kubeconfig");
            Some(temporary.path().to_owned())
        }
        (None, true) => None,
    };
    if let Some(path) = &kubeconfig {
        server
            .write_kubeconfig(path)
            .map_err(|error| Failure::new(format!("kubeconfig {}: {error}", path.display())))?;
    }
    crate::progress!("serving on {}", server.url());
    match (&args.write_kubeconfig, args.command.is_empty()) {
        (Some(path), true) => crate::progress!("  export KUBECONFIG={}", absolute(path).display()),
        (None, true) => crate::progress!(
            "  hint: --write-kubeconfig FILE gives kubectl and kinform what they need"
        ),
        _ => {}
    }
    let ending = match &kubeconfig {
        Some(path) if !args.command.is_empty() => child(&args.command, path, &mut signals).await,
        _ => Ok(signals.ending().await),
    };
    signals.end_at_next();
    let stopped = controllers::stop(running).await;
    server.stop().await;
    stopped.and(ending)
}

/// The controllers to run: with a kubelet only if it is the one that plays the nodes.
fn selection(args: &ServeArgs) -> Option<Selection> {
    let selection = args.controllers.clone()?;
    Some(match args.kubelet {
        None | Some(KubeletMode::Scripted) => selection,
        Some(KubeletMode::External | KubeletMode::None) => {
            selection.without(ControllerName::Kubelet)
        }
    })
}

/// Returns whether a deleted pod waits for a kubelet.
fn has_kubelets(args: &ServeArgs) -> bool {
    let is_ours = || selection(args).is_some_and(|all| all.has(ControllerName::Kubelet));
    args.kubelet == Some(KubeletMode::External) || is_ours()
}

async fn start(args: &ServeArgs) -> Result<(Server, Existing), Failure> {
    let mut builder = Server::builder().listen(args.listen).admin_path();
    let mut existing = Existing::Refused;
    if let Some(path) = &args.data_dir {
        let folder = open(path, args.fsync).await?;
        if !folder.is_new() {
            existing = Existing::Kept;
        }
        builder = builder.data_dir(folder);
    }
    if let Some(path) = &args.journal {
        builder = builder.on_record(journal(path)?);
    }
    for name in &args.name {
        builder = builder.name(name);
    }
    if args.http {
        builder = builder.plain();
    }
    if args.rbac {
        builder = builder.rbac();
    }
    if let Some(path) = &args.token_file {
        let shown = path.display();
        let text = files::read(path, MAX_TOKEN_FILE)
            .map_err(|error| Failure::new(format!("token file {shown}: {error}")))?;
        builder = builder
            .token_file(&text)
            .map_err(|error| Failure::new(format!("token file {shown}: {error}")))?;
    }
    if args.controllers.is_some() {
        builder = builder.with_namespace_content();
    }
    if has_kubelets(args) {
        builder = builder.with_kubelets();
    }
    if args.kubelet == Some(KubeletMode::External) {
        builder = builder.call_kubelets();
    }
    if args.keep_inert {
        builder = builder.keep_inert_objects();
    }
    if let Some(plugins) = args.admission {
        builder = builder.admission(plugins);
    }
    if let Some(gates) = args.feature_gates {
        builder = builder.feature_gates(gates);
    }
    for at in &args.service_address {
        builder = builder.service_address(&at.namespace, &at.name, at.address);
    }
    if args.webhooks_anywhere {
        builder = builder.webhooks_anywhere();
    }
    if let Some(events) = args.history {
        builder = builder.history(events);
    }
    if let Some(period) = args.bookmark_period {
        builder = builder.bookmark_period(period);
    }
    let server = builder.start().await.map_err(|error| {
        let failure = Failure::new(format!("cannot serve on {}: {error}", args.listen));
        if error.is_address_in_use() {
            failure.with_hint("port 0 picks a free one")
        } else {
            failure
        }
    })?;
    Ok((server, existing))
}

/// Opens the folder of the state. Reading it takes a second for 100,000 objects.
async fn open(path: &Path, syncs: bool) -> Result<DataDir, Failure> {
    let sync = match syncs {
        true => SyncMode::EachCommit,
        false => SyncMode::Never,
    };
    let at = path.to_owned();
    let opened = tokio::task::spawn_blocking(move || DataDir::open(at, sync));
    let opened = opened
        .await
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    opened.map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error.is_data_dir_in_use() {
            true => failure.with_hint("each server needs a folder of its own"),
            false => failure,
        }
    })
}

/// Appends records to a file, a line each. A line is complete, or absent.
fn journal(path: &Path) -> Result<impl Fn(&Record) + Send + Sync + 'static, Failure> {
    let shown = path.display().to_string();
    let file =
        files::append(path).map_err(|error| Failure::new(format!("journal {shown}: {error}")))?;
    let (file, told) = (Mutex::new(file), Once::new());
    Ok(move |record: &Record| {
        let line = format!("{}\n", record.to_json());
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            told.call_once(|| crate::progress!("journal {shown}: {error}"));
        }
    })
}

/// Runs the command with the server's kubeconfig and forwards signals; the command decides when to
/// end.
pub(crate) async fn child(
    command: &[OsString],
    kubeconfig: &Path,
    signals: &mut Signals,
) -> Result<Ending, Failure> {
    let Some((program, words)) = command.split_first() else {
        return Ok(Ending::Done);
    };
    let mut child = Command::new(program)
        .args(words)
        .env("KUBECONFIG", absolute(kubeconfig))
        .stdin(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Failure::new(format!("{}: {error}", program.to_string_lossy())))?;
    tokio::select! {
        biased;
        ended = child.wait() => {
            let status = ended?;
            // A child that a signal ended has no code; shells then report 128 + signal.
            let signal = std::os::unix::process::ExitStatusExt::signal(&status);
            Ok(Ending::Child(status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(1)))
        }
        ending = signals.ending() => {
            // A terminal's Ctrl-C reached the child, too; a plain SIGTERM did not.
            child.start_kill()?;
            child.wait().await?;
            Ok(ending)
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command as Words};

    #[test]
    fn whoever_plays_the_nodes_ends_deleted_pods() {
        let check = |words: &[&str], plays: bool, ends: bool| {
            let words = [&["kinform", "serve"][..], words].concat();
            let Words::Serve(args) = Cli::try_parse_from(words).unwrap().command.unwrap() else {
                panic!("it is another command");
            };
            let kubelet = selection(&args).is_some_and(|all| all.has(ControllerName::Kubelet));
            assert_eq!((kubelet, has_kubelets(&args)), (plays, ends), "{args:?}");
        };
        check(&[], false, false);
        check(&["--controllers"], true, true);
        check(&["--controllers", "--kubelet=scripted"], true, true);
        check(&["--controllers=deployment"], false, false);
        check(&["--controllers", "--kubelet=external"], false, true);
        check(&["--kubelet=external"], false, true);
        check(&["--controllers", "--kubelet=none"], false, false);
        let alone = Cli::try_parse_from(["kinform", "serve", "--kubelet=scripted"]);
        assert!(alone.is_err(), "nobody would play the nodes");
    }
}
