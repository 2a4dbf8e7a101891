//! Credentials of an exec plugin: a program that prints a token or a client certificate.
//!
//! ```text
//! request ──▶ valid? ──▶ the last credential
//!               └ no ──▶ one run of the plugin for all that wait ──▶ ExecCredential
//! ```
//!
//! The plugin runs again shortly before its credential ends, and when a server refuses it. It runs
//! beside the runtime's other work: dropping all requests that wait for it ends it, with the
//! programs that it started, unless it is interactive.
//!
//! BOUND: one run at a time, and for refusals one in ten seconds, however many there are; a run's
//! output and its time have limits.
//! Upstream counterpart: `client-go:plugin/pkg/client/auth/exec/exec.go`.

use std::fmt;
use std::io::{self, IsTerminal};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use kinform_core::time::Instant;
use kube_client::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use super::credentials::RENEWALS_APART;
use crate::env::{Env, wall_clock};

/// BOUND: an ExecCredential is a token and a certificate with its key.
const MAX_OUTPUT: u64 = 1 << 20;
/// BOUND: the time of a run; a login in a browser is within it.
const MAX_TIME: Duration = Duration::from_secs(120);
/// BOUND: the time for which a run goes on after the last request that waited was given up. The
/// request that takes its place, a list in place of a streaming list, waits for the same run.
const LINGER: Duration = Duration::from_secs(1);
/// The time before its end at which a credential is replaced, at most.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// The credential that a plugin printed.
#[derive(Clone)]
pub(super) struct Credential {
    /// The header of requests; `None` if there is a certificate only.
    pub(super) header: Option<HeaderValue>,
    /// The client's certificate and its key, as PEM.
    pub(super) identity: Option<(String, String)>,
    renew_at: Option<Timestamp>,
}

/// A failed run, in one line without the plugin's output.
#[derive(Clone, Debug)]
pub(super) struct PluginError(Arc<str>);

type Run = BoxFuture<'static, Result<Arc<Credential>, PluginError>>;

/// A plugin and its last credential.
pub(super) struct ExecPlugin {
    config: Arc<ExecConfig>,
    env: Env,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Arc<Credential>>,
    /// The run under way; gone if nobody waits for it any more.
    running: Option<WeakShared<Run>>,
    /// The time of the last refusal that was heard; soon after it, another is no news.
    refused_at: Option<Instant>,
}

impl ExecPlugin {
    pub(super) fn new(config: ExecConfig, env: Env) -> Self {
        Self {
            config: Arc::new(config),
            env,
            state: Mutex::default(),
        }
    }

    /// The credential for a request.
    ///
    /// # Errors
    /// The plugin fails, takes too long, or prints something else.
    ///
    /// # Cancel safety
    /// A run that nobody waits for is ended, a second later.
    pub(super) async fn credential(&self) -> Result<Arc<Credential>, PluginError> {
        let run = match self.current(wall_clock()) {
            Ok(credential) => return Ok(credential),
            Err(run) => run,
        };
        let mut waiting = Waiting(Some(run.clone()));
        let result = run.await;
        waiting.0 = None;
        let mut state = self.lock();
        state.running = None;
        if let Ok(credential) = &result {
            state.last = Some(Arc::clone(credential));
        }
        result
    }

    /// The last credential if it is valid, else the run to wait for.
    fn current(&self, now: Timestamp) -> Result<Arc<Credential>, Shared<Run>> {
        let mut state = self.lock();
        if let Some(last) = &state.last
            && last.renew_at.is_none_or(|at| now < at)
        {
            return Ok(Arc::clone(last));
        }
        if let Some(run) = state.running.as_ref().and_then(WeakShared::upgrade) {
            return Err(run);
        }
        let run: Run = Box::pin(run(Arc::clone(&self.config)));
        let run = run.shared();
        state.running = run.downgrade();
        Err(run)
    }

    /// Forgets a credential that a server refused. A newer one stays, and so does this one if
    /// another was refused within the last ten seconds.
    pub(super) fn refuse(&self, refused: &Arc<Credential>) {
        let now = self.env.now();
        let mut state = self.lock();
        let last = state.last.as_ref();
        let is_newest = last.is_some_and(|last| Arc::ptr_eq(last, refused));
        let is_early = state
            .refused_at
            .is_some_and(|at| now.since(at) < RENEWALS_APART);
        if is_newest && !is_early {
            state.last = None;
            state.refused_at = Some(now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits for a run; dropped, the run lingers.
struct Waiting(Option<Shared<Run>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let (Some(run), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(LINGER, run));
        }
    }
}

/// A running plugin; dropped, it ends with all that it started.
struct Running {
    child: Child,
    /// True if it leads a group of its own.
    is_group: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(id) = self.child.id().filter(|_| self.is_group)
            && let Ok(id) = i32::try_from(id)
        {
            use nix::sys::signal::{Signal, killpg};
            // It may have ended by itself meanwhile.
            let _ = killpg(nix::unistd::Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

async fn run(config: Arc<ExecConfig>) -> Result<Arc<Credential>, PluginError> {
    let name = config.command.clone().unwrap_or_default();
    let fail = |why: String| PluginError(format!("exec plugin {name:?}: {why}").into());
    let is_interactive = is_interactive(&config).map_err(|why| fail(why.to_owned()))?;
    let mut command = command(&config, is_interactive).map_err(|why| fail(why.to_owned()))?;
    let child = command.spawn().map_err(|error| {
        let hint = config.install_hint.as_deref().unwrap_or_default();
        let hint = hint.lines().next().unwrap_or_default();
        match error.kind() {
            io::ErrorKind::NotFound if !hint.is_empty() => fail(format!("it is not there; {hint}")),
            _ => fail(format!("it cannot be started: {error}")),
        }
    })?;
    let mut running = Running {
        child,
        is_group: !is_interactive,
    };
    let ended = tokio::time::timeout(MAX_TIME, output(&mut running.child));
    let (output, status) = match ended.await {
        Ok(Ok(ended)) => ended,
        Ok(Err(why)) => return Err(fail(why)),
        Err(_) => {
            return Err(fail(format!(
                "it did not end within {} s",
                MAX_TIME.as_secs()
            )));
        }
    };
    if !status.success() {
        return Err(fail(format!("it ended with {status}")));
    }
    let credential = parse(&output, config.api_version.as_deref(), wall_clock());
    credential.map(Arc::new).map_err(|why| fail(why.to_owned()))
}

/// Reads all that it prints, and waits for its end, unless it prints too much.
async fn output(child: &mut Child) -> Result<(Vec<u8>, ExitStatus), String> {
    let unreadable = |error: io::Error| format!("its output cannot be read: {error}");
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = stdout.take(MAX_OUTPUT + 1);
        stdout.read_to_end(&mut output).await.map_err(unreadable)?;
    }
    if output.len() as u64 > MAX_OUTPUT {
        return Err(format!("it printed more than {MAX_OUTPUT} bytes"));
    }
    let status = child.wait().await.map_err(unreadable)?;
    Ok((output, status))
}

fn is_interactive(config: &ExecConfig) -> Result<bool, &'static str> {
    let has_terminal = io::stdin().is_terminal();
    match config.interactive_mode {
        Some(ExecInteractiveMode::Never) => Ok(false),
        Some(ExecInteractiveMode::Always) if !has_terminal => {
            Err("it needs a terminal (interactiveMode: Always), and stdin is none")
        }
        Some(ExecInteractiveMode::Always) => Ok(true),
        Some(ExecInteractiveMode::IfAvailable) | None => Ok(has_terminal),
    }
}

fn command(config: &ExecConfig, is_interactive: bool) -> Result<Command, &'static str> {
    let name = config.command.as_ref().filter(|name| !name.is_empty());
    let mut command = Command::new(name.ok_or("the kubeconfig names no command")?);
    command
        .args(config.args.iter().flatten())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    for variable in config.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    let spec = match (config.provide_cluster_info, &config.cluster) {
        (false, _) => json!({ "interactive": is_interactive }),
        (true, Some(cluster)) => json!({ "interactive": is_interactive, "cluster": cluster }),
        (true, None) => return Err("it asks for the cluster, which is not known"),
    };
    let info = json!({
        "apiVersion": config.api_version,
        "kind": "ExecCredential",
        "spec": spec,
    });
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    match is_interactive {
        true => command.stdin(Stdio::inherit()),
        false => command.stdin(Stdio::null()),
    };
    #[cfg(unix)]
    if !is_interactive {
        // A group of its own, so that its children can be ended with it. An interactive plugin
        // stays in the terminal's group, since no other may read from the terminal.
        command.process_group(0);
    }
    Ok(command)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    api_version: Option<String>,
    kind: Option<String>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<Timestamp>,
}

/// Reads what a plugin printed, JSON or YAML.
fn parse(output: &[u8], version: Option<&str>, now: Timestamp) -> Result<Credential, &'static str> {
    let printed: Printed =
        serde_saphyr::from_slice(output).map_err(|_| "it printed no ExecCredential")?;
    if printed.kind.is_some_and(|kind| kind != "ExecCredential") {
        return Err("it printed an object of another kind than ExecCredential");
    }
    if printed.api_version.as_deref() != version {
        return Err("it printed an ExecCredential of another version than was asked for");
    }
    let status = printed
        .status
        .ok_or("it printed an ExecCredential without a status")?;
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let identity = match (
        filled(status.client_certificate_data),
        filled(status.client_key_data),
    ) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("it printed a certificate without a key, or a key without one"),
    };
    let header = match filled(status.token) {
        Some(token) => {
            let header = HeaderValue::try_from(format!("Bearer {token}"));
            let mut header =
                header.map_err(|_| "its token has characters that no header can have")?;
            header.set_sensitive(true);
            Some(header)
        }
        None if identity.is_none() => return Err("it printed neither a token nor a certificate"),
        None => None,
    };
    Ok(Credential {
        header,
        identity,
        renew_at: status.expiration_timestamp.map(|end| renewal(now, end)),
    })
}

/// The time to replace a credential: a minute before its end, of a short one a tenth.
fn renewal(now: Timestamp, end: Timestamp) -> Timestamp {
    let tenth = end.duration_since(now) / 10;
    let leeway = tenth.clamp(SignedDuration::ZERO, LEEWAY);
    end.checked_sub(leeway).unwrap_or(end)
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PluginError {}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is in it is secret.
        f.debug_struct("Credential").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;

    const V1: &str = "client.authentication.k8s.io/v1";

    #[test]
    fn what_a_plugin_prints_is_checked() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let check = |status: &str, expected: Result<&str, &str>| {
            let text = format!(r#"{{"apiVersion":"{V1}","kind":"ExecCredential"{status}}}"#);
            let parsed = parse(text.as_bytes(), Some(V1), now);
            let parsed = parsed.map(|credential| {
                let at = credential.renew_at.map(|at| at.to_string());
                at.unwrap_or_default()
            });
            assert_eq!(parsed.as_deref().map_err(|why| *why), expected, "{status}");
        };
        let status = |inside: &str| format!(r#","status":{{{inside}}}"#);
        check(&status(r#""token":"t""#), Ok(""));
        let ends = |at: &str| status(&format!(r#""token":"t","expirationTimestamp":"{at}""#));
        check(&ends("2026-01-01T01:00:00Z"), Ok("2026-01-01T00:59:00Z"));
        check(&ends("2026-01-01T00:00:20Z"), Ok("2026-01-01T00:00:18Z"));
        check(&ends("2025-01-01T00:00:00Z"), Ok("2025-01-01T00:00:00Z"));
        check(
            &status(r#""clientCertificateData":"c","clientKeyData":"k""#),
            Ok(""),
        );
        check("", Err("it printed an ExecCredential without a status"));
        check(
            &status(""),
            Err("it printed neither a token nor a certificate"),
        );
        check(
            &status(r#""clientCertificateData":"c""#),
            Err("it printed a certificate without a key, or a key without one"),
        );
        check(
            &status(r#""token":"a\nb""#),
            Err("its token has characters that no header can have"),
        );
        assert!(parse(b"<html>", Some(V1), now).is_err());
        let other = format!(r#"{{"apiVersion":"{V1}","kind":"Pod"}}"#);
        assert!(parse(other.as_bytes(), Some(V1), now).is_err());
        let yaml = format!("apiVersion: {V1}\nkind: ExecCredential\nstatus: {{token: t}}\n");
        assert!(parse(yaml.as_bytes(), Some(V1), now).is_ok());
        assert!(
            parse(
                yaml.as_bytes(),
                Some("client.authentication.k8s.io/v1beta1"),
                now
            )
            .is_err()
        );
    }

    fn plugin(script: &str) -> ExecPlugin {
        let config = ExecConfig {
            api_version: Some(V1.to_owned()),
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        };
        ExecPlugin::new(config, Env::seeded(1))
    }

    fn prints(count: &std::path::Path) -> String {
        format!(
            r#"echo x >> {}; echo '{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{"token":"t"}}}}'"#,
            count.display()
        )
    }

    #[tokio::test]
    async fn all_that_wait_share_one_run_and_a_refusal_asks_for_another() {
        let name = format!("kinform-plugin-{}", std::process::id());
        let count = std::env::temp_dir().join(name);
        let runs = || std::fs::read(&count).map_or(0, |text| text.len() / 2);
        let plugin = plugin(&prints(&count));
        let all = join_all((0..5).map(|_| plugin.credential())).await;
        let first = all[0].clone().unwrap();
        assert_eq!(first.header.as_ref().unwrap(), "Bearer t");
        assert!(plugin.credential().await.is_ok());
        assert_eq!(runs(), 1);
        plugin.refuse(&first);
        let second = plugin.credential().await.unwrap();
        // The first is not the newest any more, and it is too early for the second.
        for refused in [&first, &second] {
            plugin.refuse(refused);
            assert!(Arc::ptr_eq(&second, &plugin.credential().await.unwrap()));
        }
        assert_eq!(runs(), 2);
        tokio::time::pause();
        tokio::time::advance(RENEWALS_APART).await;
        tokio::time::resume();
        plugin.refuse(&second);
        assert!(plugin.credential().await.is_ok());
        assert_eq!(runs(), 3);
        std::fs::remove_file(&count).unwrap();
    }

    #[tokio::test]
    async fn a_request_in_place_of_one_that_was_given_up_waits_for_the_same_run() {
        let name = format!("kinform-linger-{}", std::process::id());
        let count = std::env::temp_dir().join(name);
        let plugin = plugin(&prints(&count));
        tokio::select! {
            biased;
            _ = plugin.credential() => panic!("a process takes its time"),
            () = std::future::ready(()) => {}
        }
        assert!(plugin.credential().await.is_ok());
        let runs = std::fs::read(&count).map_or(0, |text| text.len() / 2);
        assert_eq!(runs, 1);
        std::fs::remove_file(&count).unwrap();
    }

    #[tokio::test]
    async fn a_plugin_that_fails_is_named_and_its_output_is_not_shown() {
        for (script, expected) in [
            ("echo secret; exit 3", "ended with exit status: 3"),
            ("echo secret", "printed no ExecCredential"),
            ("yes secret", "printed more than"),
        ] {
            let error = plugin(script).credential().await.unwrap_err().to_string();
            assert!(error.starts_with("exec plugin \"sh\": "), "{error}");
            assert!(
                error.contains(expected) && !error.contains("secret"),
                "{error}"
            );
        }
        let absent = ExecConfig {
            command: Some("/nonexistent/plugin".to_owned()),
            install_hint: Some("install it from x".to_owned()),
            ..ExecConfig::default()
        };
        let absent = ExecPlugin::new(absent, Env::seeded(1));
        let error = absent.credential().await.unwrap_err().to_string();
        assert!(
            error.ends_with("it is not there; install it from x"),
            "{error}"
        );
    }

    /// The child that a plugin's script started, which writes its number to a file.
    struct Child(std::path::PathBuf);

    impl Child {
        fn new(name: &str) -> Self {
            let name = format!("kinform-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn script(&self, then: &str) -> String {
            format!("sleep 1000 & echo $! > {}; {then}", self.0.display())
        }

        async fn number(&self) -> i32 {
            let number = async {
                loop {
                    match std::fs::read_to_string(&self.0).map(|text| text.trim().parse()) {
                        Ok(Ok(number)) => return number,
                        _ => tokio::task::yield_now().await,
                    }
                }
            };
            let number = tokio::time::timeout(Duration::from_secs(30), number);
            number.await.unwrap()
        }

        async fn ends(self) {
            let line = format!("/proc/{}/cmdline", self.number().await);
            let gone = async {
                // A process that has ended has an empty line until its parent has seen it.
                while std::fs::read(&line).is_ok_and(|line| !line.is_empty()) {
                    tokio::task::yield_now().await;
                }
            };
            let gone = tokio::time::timeout(Duration::from_secs(30), gone);
            gone.await.unwrap();
            std::fs::remove_file(&self.0).unwrap();
        }
    }

    #[tokio::test]
    async fn a_plugin_that_nobody_waits_for_ends_with_its_children() {
        let child = Child::new("hang");
        let plugin = plugin(&child.script("wait"));
        tokio::select! {
            biased;
            _ = plugin.credential() => panic!("it hangs"),
            _ = child.number() => {}
        }
        child.ends().await;
    }

    #[tokio::test]
    async fn a_plugin_that_prints_too_much_ends_with_its_children() {
        let child = Child::new("flood");
        let plugin = plugin(&child.script("yes secret"));
        assert!(plugin.credential().await.is_err());
        child.ends().await;
    }
}
