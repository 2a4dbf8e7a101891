//! Running the binary under test.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use kinform_apiserver::Server;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A folder with a kubeconfig, gone with the test.
pub(crate) struct Kubeconfig {
    folder: tempfile::TempDir,
}

impl Kubeconfig {
    /// For an embedded server.
    pub(crate) fn of(server: &Server) -> Self {
        let kubeconfig = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        server.write_kubeconfig(&kubeconfig.path()).unwrap();
        kubeconfig
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

/// The binary, with nothing of this machine's configuration.
pub(crate) fn kinform(kubeconfig: Option<&Path>, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kinform"));
    command
        .args(words)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    match kubeconfig {
        Some(path) => command.env("KUBECONFIG", path),
        None => command.env_remove("KUBECONFIG"),
    };
    command
}

/// Exit code, stdout and stderr.
pub(crate) async fn outcome(mut command: Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

/// A running `kinform watch -o json`.
pub(crate) struct Watch {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line; absent at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// The next line of that event; others before it are passed over.
    pub(crate) async fn next_event(&mut self, event: &str) -> Value {
        loop {
            let line = self
                .next()
                .await
                .unwrap_or_else(|| panic!("ended before {event}"));
            if line["event"] == event {
                return line;
            }
        }
    }
}
