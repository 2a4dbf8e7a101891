//! Programs of other people's clusters, beside `kinform serve` as a process.
//!
//! ```text
//! kinform serve FLAGS ──▶ Serve { kubeconfig } ◀── Peer (kwok, controllers, a scheduler) ──▶ log
//!                                    ▲
//! manifests, waits ──▶ Kubectl ──────┘
//! ```
//!
//! They are started with the flags that they have for a real cluster, and do not know which server
//! they talk to. Each writes a log into a directory of its own, and is killed when it is dropped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use kinform_testkit::checks::stage::StageError;
use serde::Deserialize;

use crate::kubectl::cache;

/// BOUND: the time until a server answers.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// The variable that names the program `kinform`.
const PROGRAM: &str = "KINFORM_PROGRAM";

/// A process with a log.
#[derive(Debug)]
pub struct Peer {
    name: String,
    child: Child,
    log: PathBuf,
    // Holds the log.
    _home: tempfile::TempDir,
}

impl Peer {
    /// Starts a program.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start<A: AsRef<OsStr>>(
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self, StageError> {
        let home = tempfile::tempdir()?;
        let log = home.path().join("log");
        let file = File::create(&log)?;
        let name = program.file_name().unwrap_or_default();
        let child = Command::new(program)
            .args(arguments)
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            child,
            log,
            _home: home,
        })
    }

    /// The log until now, or why it cannot be read.
    pub fn log(&self) -> String {
        match fs::read(&self.log) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            // A line of the form in which programs log errors.
            Err(error) => format!("E0 the log cannot be read: {error}"),
        }
    }

    /// Fails if it has ended.
    ///
    /// # Errors
    /// It has; the message has its log.
    pub fn still_runs(&mut self) -> Result<(), StageError> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(code) => Err(format!("{} ended ({code}):\n{}", self.name, self.log()).into()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `kinform serve`.
#[derive(Debug)]
pub struct Serve {
    kubeconfig: PathBuf,
    _peer: Peer,
    home: tempfile::TempDir,
}

impl Serve {
    /// Starts it with these flags, and waits until it answers.
    ///
    /// # Errors
    /// The program is not named or does not start.
    pub async fn start(flags: &[&str]) -> Result<Self, StageError> {
        let program = std::env::var_os(PROGRAM).ok_or_else(|| {
            format!("{PROGRAM} must name the program kinform; `cargo xtask e2e peers` builds it")
        })?;
        let home = tempfile::tempdir()?;
        let kubeconfig = home.path().join("kubeconfig");
        let mut arguments = vec![OsStr::new("serve"), OsStr::new("--write-kubeconfig")];
        arguments.push(kubeconfig.as_os_str());
        arguments.extend(flags.iter().map(OsStr::new));
        let mut peer = Peer::start(Path::new(&program), arguments)?;
        let began = Instant::now();
        while !kubeconfig.exists() {
            peer.still_runs()?;
            if began.elapsed() > PATIENCE {
                return Err(format!("it does not serve:\n{}", peer.log()).into());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(Self {
            kubeconfig,
            _peer: peer,
            home,
        })
    }

    /// The file by which other programs reach it.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A directory for files of its clients. Removed with it.
    pub fn home(&self) -> &Path {
        self.home.path()
    }
}

/// kubectl for one server.
#[derive(Debug)]
pub struct Kubectl {
    kubeconfig: PathBuf,
    // Its cache of discovery.
    home: tempfile::TempDir,
}

impl Kubectl {
    /// For the server of this file.
    ///
    /// # Errors
    /// No directory can be made.
    pub fn new(kubeconfig: &Path) -> Result<Self, StageError> {
        Ok(Self {
            kubeconfig: kubeconfig.to_owned(),
            home: tempfile::tempdir()?,
        })
    }

    /// Runs a command, given as words between spaces, with this input; returns what it prints.
    ///
    /// # Errors
    /// It fails.
    pub fn run(&self, words: &str, input: &str) -> Result<String, StageError> {
        let output = self.ask(words, input)?;
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout)?);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("kubectl {words}: {said}").into())
    }

    /// The same, whether the command succeeds or not.
    ///
    /// # Errors
    /// It cannot be started, or does not take its input.
    pub fn ask(&self, words: &str, input: &str) -> Result<Output, StageError> {
        let mut child = Command::new(cache().join("bin/kubectl"))
            .args(words.split(' '))
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let given = child.stdin.take().map(|mut stdin| {
            // One that ends early says more than a broken pipe.
            stdin.write_all(input.as_bytes())
        });
        let output = child.wait_with_output()?;
        if output.status.success() {
            given.transpose()?;
        }
        Ok(output)
    }

    /// Forwards a port (`pod/x :80`) until the process is dropped; returns the local port, too.
    ///
    /// # Errors
    /// It does not listen in time.
    pub async fn forward(&self, words: &str) -> Result<(Peer, u16), StageError> {
        let at = format!("--kubeconfig={}", self.kubeconfig.display());
        let words = ["port-forward", at.as_str()]
            .into_iter()
            .chain(words.split(' '));
        let mut peer = Peer::start(&cache().join("bin/kubectl"), words)?;
        let began = Instant::now();
        loop {
            peer.still_runs()?;
            let log = peer.log();
            let local = log.split_once("127.0.0.1:");
            let local = local.and_then(|(_, rest)| rest.split_once(" ->"));
            if let Some(port) = local.and_then(|(port, _)| port.parse().ok()) {
                return Ok((peer, port));
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("no port is forwarded:\n{log}").into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The text of a list under `e2e/peers/`.
///
/// # Errors
/// It cannot be read.
pub fn list(name: &str) -> Result<String, StageError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    Ok(fs::read_to_string(folder.join(name))?)
}

/// Builds programs of Kubernetes into the cache, those that are not built yet.
///
/// # Errors
/// One does not build.
pub fn build(names: &[&str]) -> Result<PathBuf, StageError> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle/build");
    let built = Command::new(script).args(names).status()?;
    match built.success() {
        true => Ok(cache().join("bin")),
        false => Err(format!("oracle/build: {built}").into()),
    }
}

/// The folder of a Go module, fetched if need be.
///
/// # Errors
/// It cannot be fetched.
pub fn module(name: &str, version: &str) -> Result<PathBuf, StageError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Module {
        #[serde(default)]
        dir: PathBuf,
        #[serde(default)]
        error: String,
    }
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{name}@{version}")])
        .env("GOFLAGS", "-mod=mod")
        .current_dir(std::env::temp_dir())
        .output()?;
    let module: Module = serde_json::from_slice(&output.stdout)?;
    match module.error.is_empty() {
        true => Ok(module.dir),
        false => Err(format!("{name}: {}", module.error).into()),
    }
}

/// Runs `go` in a folder.
///
/// # Errors
/// It fails.
pub fn go<A: AsRef<OsStr>>(
    folder: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Result<(), StageError> {
    let ran = Command::new("go")
        .args(arguments)
        .current_dir(folder)
        .status()?;
    match ran.success() {
        true => Ok(()),
        false => Err(format!("go in {}: {ran}", folder.display()).into()),
    }
}

/// The errors in a log of Kubernetes' programs: the place in the source and the message of each
/// line.
pub fn errors(log: &str) -> Vec<&str> {
    let line = |line: &'_ str| -> bool {
        let mut letters = line.bytes();
        letters.next() == Some(b'E') && letters.next().is_some_and(|digit| digit.is_ascii_digit())
    };
    let errors = log.lines().filter(|one| line(one));
    // The severity, the time and the thread come first.
    errors
        .map(|line| line.splitn(4, ' ').last().unwrap_or(line).trim_start())
        .map(|line| {
            line.split_once(' ')
                .filter(|(id, _)| is_number(id))
                .map_or(line, |(_, rest)| rest)
        })
        .collect()
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|digit| digit.is_ascii_digit())
}

/// Returns whether a text matches a pattern: `*` stands for any text.
pub fn is_like(pattern: &str, text: &str) -> bool {
    let Some((first, others)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let (middle, last) = others.rsplit_once('*').unwrap_or(("", others));
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    for piece in middle.split('*') {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_log_are_told_without_their_time() {
        let log = "I1126 11:34:15.586401   23406 a.go:1] fine\n\
                   E1126 11:34:26.967064   23406 stateful_set.go:509] \"Error\" err=\"x\"\n\
                   Error: a line of another kind\n\
                   E1126 11:34:26.967064       7 b.go:2] broken\n";
        assert_eq!(
            errors(log),
            ["stateful_set.go:509] \"Error\" err=\"x\"", "b.go:2] broken"]
        );
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("a*c", "abc", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("b*", "abc", false),
            ("a*b", "abc", false),
            ("*c", "cc", true),
            ("a*b", "abb", true),
            ("a*a", "a", false),
            ("a*b*c", "axbyc", true),
            ("a*b*c", "acb", false),
            ("abc", "abc", true),
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
    }
}
