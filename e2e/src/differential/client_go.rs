//! The real client-go as a subject: one process for all histories.
//!
//! ```text
//! command lines ──stdin──▶ e2e/client-go ──stdout──▶ lines ──by history──▶ Ear
//! ```
//!
//! The program is built by the Go that is installed, from the modules that its `go.sum` names. It
//! ends with its stdin, and with this process.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::heard::{Ear, Event, Heard};
use super::history::State;

type Ears = Arc<Mutex<HashMap<u64, Ear>>>;

/// The program, running.
#[derive(Debug)]
pub(crate) struct ClientGo {
    stdin: tokio::sync::Mutex<ChildStdin>,
    ears: Ears,
    _child: Child,
    // The directory that holds the program.
    _home: tempfile::TempDir,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Line {
    history: u64,
    handler: usize,
    event: String,
    key: String,
    uid: String,
    version: String,
    old_uid: String,
    old_version: String,
    initial: bool,
    final_state_unknown: bool,
    message: String,
}

impl ClientGo {
    /// Returns whether the program can be built here.
    pub(crate) fn is_possible() -> bool {
        let asked = std::process::Command::new("go").arg("version").output();
        asked.is_ok_and(|output| output.status.success())
    }

    /// Builds the program and runs it.
    ///
    /// # Errors
    /// It cannot be built or run.
    pub(crate) async fn start() -> io::Result<Self> {
        let home = tempfile::tempdir()?;
        let program = home.path().join("client-go");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("client-go");
        let built = Command::new("go")
            .args(["build", "-mod=readonly", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(source)
            .status()
            .await?;
        if !built.success() {
            return Err(io::Error::other(format!("go build failed: {built}")));
        }
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes to the program"));
        };
        let ears = Ears::default();
        tokio::spawn(listen(stdout, Arc::clone(&ears)));
        Ok(Self {
            stdin: tokio::sync::Mutex::new(stdin),
            ears,
            _child: child,
            _home: home,
        })
    }

    /// Sends the notifications of this history's handlers to this ear.
    pub(crate) fn attach(&self, history: u64, ear: Ear) {
        lock(&self.ears).insert(history, ear);
    }

    /// Sends a command and waits until it is obeyed.
    ///
    /// # Errors
    /// The program is gone.
    pub(crate) async fn order(
        &self,
        history: u64,
        ear: &Ear,
        command: serde_json::Value,
    ) -> io::Result<()> {
        let mut line = command;
        line["history"] = history.into();
        let done = ear.read(|notes| notes.done + notes.failures.len());
        let text = format!("{line}\n");
        self.stdin.lock().await.write_all(text.as_bytes()).await?;
        ear.when(|notes| notes.done + notes.failures.len() > done)
            .await;
        Ok(())
    }
}

fn lock(ears: &Ears) -> std::sync::MutexGuard<'_, HashMap<u64, Ear>> {
    ears.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen(stdout: ChildStdout, ears: Ears) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        let line: Line = match serde_json::from_str(&text) {
            Ok(line) => line,
            Err(error) => panic!("client-go said {text:?}: {error}"),
        };
        let Some(ear) = lock(&ears).get(&line.history).cloned() else {
            continue;
        };
        line.tell(&ear);
    }
}

impl Line {
    fn tell(self, ear: &Ear) {
        let version = |text: &str| text.parse().unwrap_or(u64::MAX);
        let state = State {
            uid: self.uid,
            version: version(&self.version),
        };
        let event = match self.event.as_str() {
            "add" => Event::Add,
            "update" => Event::Update,
            "delete" => Event::Delete,
            "done" => return ear.note(|notes| notes.done += 1),
            "stored" => return ear.note(|notes| notes.stored.push((self.key, state))),
            other => {
                let failure = format!("client-go {other}: {}", self.message);
                return ear.note(|notes| notes.failures.push(failure));
            }
        };
        let old = (event == Event::Update).then(|| State {
            uid: self.old_uid,
            version: version(&self.old_version),
        });
        let heard = Heard {
            event,
            key: self.key,
            state,
            old,
            initial: self.initial,
            final_state_unknown: self.final_state_unknown,
        };
        ear.hear(self.handler, heard);
    }
}
