//! A column as a process: its start, its ports, its memory, its end.
//!
//! ```text
//! Column + kubeconfig ──spawn──▶ Program ── log (a file) ─▶ addresses ─▶ GET pages
//!                                        └─ trace (a file), /proc/PID/status
//! ```
//!
//! Ports are free ones, which the log tells. The process is killed when it is dropped.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::StageError;
use crate::trace::{self, Run};

/// BOUND: the time for anything to happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// One of the two programs of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// On kube-runtime.
    KubeRuntime,
    /// On kinform.
    Kinform,
}

/// A page that both columns have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The health of the program.
    Health,
    /// The metrics.
    Metrics,
    /// The last event.
    Diagnostics,
}

impl Column {
    /// Both.
    pub const ALL: [Self; 2] = [Self::KubeRuntime, Self::Kinform];

    /// The name of the library.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeRuntime => "kube-runtime",
            Self::Kinform => "kinform",
        }
    }

    /// The flags of the program. kube-runtime's has no limit of requests.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::KubeRuntime => &[],
            Self::Kinform => &[
                "--health-probe-bind-address=127.0.0.1:0",
                "--metrics-bind-address=127.0.0.1:0",
                "--metrics-secure=false",
                "--kube-api-qps=0",
                "--kube-api-burst=0",
            ],
        }
    }

    /// The port of a page, as the log names it, and the path.
    fn page(self, page: Page) -> (&'static str, &'static str) {
        match (self, page) {
            (_, Page::Diagnostics) => ("pages", "/"),
            (Self::KubeRuntime, Page::Health) => ("pages", "/health"),
            (Self::KubeRuntime, Page::Metrics) => ("pages", "/metrics"),
            (Self::Kinform, Page::Health) => ("probes", "/healthz"),
            (Self::Kinform, Page::Metrics) => ("metrics", "/metrics"),
        }
    }
}

/// A running program.
#[derive(Debug)]
pub struct Program {
    column: Column,
    child: Child,
    home: PathBuf,
    started: SystemTime,
}

impl Program {
    /// Starts the program at `binary`; its log and its trace are files in `home`, which must have
    /// none of another program. kube-runtime's has this number of runs at one time; 0 is no limit.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        column: Column,
        binary: &Path,
        kubeconfig: &Path,
        home: &Path,
        check_back: Duration,
        concurrency: u16,
    ) -> Result<Self, StageError> {
        let started = SystemTime::now();
        let child = Command::new(binary)
            .args(column.flags())
            .env("KUBECONFIG", kubeconfig)
            .env("PORTS_ADDRESS", "127.0.0.1:0")
            .env("PORTS_CHECK_BACK_MS", check_back.as_millis().to_string())
            .env("PORTS_CONCURRENCY", concurrency.to_string())
            .env("PORTS_TRACE", home.join("trace"))
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create_new(home.join("log"))?)
            .spawn()?;
        let home = home.to_owned();
        Ok(Self {
            column,
            child,
            home,
            started,
        })
    }

    /// The log until now.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }

    /// The runs until now.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        let text = std::fs::read_to_string(self.home.join("trace")).unwrap_or_default();
        trace::parse(&text)
    }

    /// The time from the start of the process to the begin of its first run.
    #[must_use]
    pub fn first_run(&self) -> Option<Duration> {
        let first = self.runs().iter().map(|run| run.began).min()?;
        let started = self.started.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Duration::from_millis(first).checked_sub(started)
    }

    /// The kibibytes that the process occupies now, and did at most.
    ///
    /// # Errors
    /// It has ended, or the system has no such file.
    pub fn memory(&self) -> Result<(u64, u64), StageError> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path)?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().trim_end_matches(" kB").parse().ok()
        };
        let both = field("VmRSS:").zip(field("VmHWM:"));
        both.ok_or_else(|| "the process has ended".into())
    }

    /// Waits until something holds.
    ///
    /// # Errors
    /// It does not, in time, or the process ended; the message has the log.
    pub async fn until<F: Future<Output = bool>>(
        &mut self,
        what: &str,
        mut holds: impl FnMut() -> F,
    ) -> Result<(), StageError> {
        let began = Instant::now();
        while !holds().await {
            let ended = self.child.try_wait()?;
            if ended.is_some() || began.elapsed() > PATIENCE {
                let (name, log) = (self.column.name(), self.log());
                return Err(format!("{name}: {what}: not so ({ended:?}):\n{log}").into());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// The status and the body of a page.
    ///
    /// # Errors
    /// There is no reply.
    pub async fn get(&mut self, page: Page) -> Result<(u16, String), StageError> {
        let (port, path) = self.column.page(page);
        let log = self.home.join("log");
        let find = || address(&std::fs::read_to_string(&log).unwrap_or_default(), port);
        let what = format!("the address of its {port}");
        self.until(&what, || std::future::ready(find().is_some()))
            .await?;
        tokio::time::timeout(PATIENCE, get(find().ok_or(what)?, path)).await?
    }

    /// Waits until a page has a line that begins so.
    ///
    /// # Errors
    /// It has none, in time, or there is no reply.
    pub async fn until_page(&mut self, page: Page, line: &str) -> Result<(), StageError> {
        let began = Instant::now();
        loop {
            let (_, text) = self.get(page).await?;
            if text.lines().any(|of| of.starts_with(line)) {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("no line {line} in:\n{text}\n{}", self.log()).into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks the process to end, and waits for it.
    ///
    /// # Errors
    /// It does not end in time.
    pub async fn stop(&mut self) -> Result<ExitStatus, StageError> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        self.ended().await
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// It does not end in time.
    pub async fn ended(&mut self) -> Result<ExitStatus, StageError> {
        let began = Instant::now();
        loop {
            if let Some(ended) = self.child.try_wait()? {
                return Ok(ended);
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{} does not end:\n{}", self.column.name(), self.log()).into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address of a port in a log.
fn address(log: &str, port: &str) -> Option<SocketAddr> {
    let told = format!("serving {port} address=");
    let (_, rest) = log.split_once(&told)?;
    let end = rest.find(char::is_whitespace)?;
    rest[..end].parse().ok()
}

/// The status and the body of a GET over plain HTTP.
async fn get(address: SocketAddr, path: &str) -> Result<(u16, String), StageError> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: */*\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    let (head, body) = reply.split_once("\r\n\r\n").ok_or("no reply")?;
    let code = head.split(' ').nth(1).ok_or("no status")?.parse()?;
    Ok((code, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn the_address_of_a_port_is_found_in_a_whole_line_only() {
        let line = "2026 INFO x: serving probes address=127.0.0.1:81\n";
        assert_eq!(address(line, "probes"), "127.0.0.1:81".parse().ok());
        assert_eq!(address(line, "metrics"), None);
        assert_eq!(address(line.trim_end(), "probes"), None);
    }
}
