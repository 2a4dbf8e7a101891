//! `cargo xtask e2e terminal`: `kinform top` on terminals of tmux.
//!
//! ```text
//! tmux ──missing──▶ a row that says so
//!   └─▶ e2e/'s program `watched` ◀─words─ facts ──▶ kinform top in tmux, 80x24 and 200x50 ──captures──▶ rows
//! ```
//!
//! The facts are those of the browser's checks: a relist with its reason, a quarantined object with its
//! path, loops and fights with field and managers, a slow handler, names with control characters, a
//! Secret whose value is nowhere, and a program that ends.
//! BOUND: each fact may take 30 s.
//!
//! * `terminal/picture.rs`: a screen as a picture for the documents.
//! * `terminal/figures.rs`: the cost of a screen.
//!
//! Upstream counterpart: none.

mod figures;
mod picture;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::suite;

/// The checks, or the cost.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Measures the cost of a screen instead, with release builds.
    #[arg(long)]
    figures: bool,
    /// The length of each of the six windows of figures.
    #[arg(long, default_value_t = 60, requires = "figures")]
    seconds: u64,
    /// Changes a second of figures.
    #[arg(long, default_value_t = 10_000, requires = "figures")]
    rate: u64,
}

/// BOUND: the time for a fact to be shown.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time without output after which a screen counts as drawn.
const PAUSE: Duration = Duration::from_millis(150);
/// The sizes of the terminals.
const SIZES: [(u16, u16); 2] = [(80, 24), (200, 50)];
/// BOUND: screens of one view.
const SCREENS: usize = 40;
/// The words that make the program show something.
const WORDS: [&str; 7] = [
    "relist", "poison", "hot-loop", "fight", "slow", "names", "secret",
];
/// BOUND: bytes of a picture in the repository.
const PICTURE: usize = 200_000;
/// The program that is needed, and how to get it.
pub(crate) const NEEDED: &str = "tmux: install Debian's package tmux";
/// The size of the terminal of a picture: as wide as a page of text.
const PICTURED: (u16, u16) = (100, 30);
/// The words whose effects are on the pictures.
const SEEN: [&str; 5] = ["relist", "poison", "hot-loop", "fight", "slow"];
/// Names of pictures, the key of each view, and the time in which its lines of values grow.
const PICTURES: [(&str, &str, Duration); 2] = [
    ("terminal-pipeline.svg", "1", Duration::from_secs(40)),
    ("terminal-problems.svg", "6", Duration::from_secs(1)),
];
/// The value of the program's Secret, and what base64 makes of it.
const CANARY: [&str; 2] = [
    "c4nary-value-of-a-secret",
    "YzRuYXJ5LXZhbHVlLW9mLWEtc2VjcmV0",
];
/// Key of a view, and facts that are on its screens.
const FACTS: [(&str, &[&str]); 5] = [
    (
        "1",
        &[
            "SERVER ─▶ CACHE ─▶ HANDLERS",
            "configmaps",
            "widgets",
            "planner",
        ],
    ),
    ("2", &["expired 1", "quarantined objects: 1", "slow"]),
    ("3", &["planner", "restless"]),
    ("5", &["widgets", "pods"]),
    (
        "6",
        &[
            "quarantined",
            "spec.size",
            "default/poisoned",
            "data.seen of ConfigMap (managers: watched/restless",
            "data.colour of ConfigMap (managers: watched/ours, watched/theirs)",
            "slow-handler",
            "Make the handler faster",
        ],
    ),
];

/// Runs the checks, or measures; returns a line for each.
///
/// # Errors
/// A program does not build or start, or a check failed: the screen that was there.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    if arguments.figures {
        let (kinform, watched) = programs(root, &["--release"])?;
        let length = Duration::from_secs(arguments.seconds);
        return figures::measure((&kinform, &watched), arguments.rate, length);
    }
    let (kinform, watched) = programs(root, &[])?;
    let mut report = String::new();
    for (width, height) in SIZES {
        let mut program = Program::start(&watched, &[])?;
        for word in WORDS {
            program.obey(word)?;
        }
        let screen = Screen::open(&kinform, &program.url, (width, height))?;
        for (key, facts) in FACTS {
            screen.keys(&[key]);
            screen.shows(key, facts)?;
            _ = writeln!(
                report,
                "ok {width}x{height}: view {key} has {}",
                facts.join(", ")
            );
        }
        screen.finds_objects()?;
        _ = writeln!(
            report,
            "ok {width}x{height}: objects are found; versions are shown, the values of a Secret are not"
        );
        screen.is_whole()?;
        _ = writeln!(
            report,
            "ok {width}x{height}: hostile names leave the screen whole"
        );
        program.end()?;
        screen.ends_with_its_program()?;
        _ = writeln!(
            report,
            "ok {width}x{height}: a program that ends is one line and exit code 1"
        );
    }
    Ok(report)
}

/// Makes the pictures of the screen in a folder.
///
/// # Errors
/// tmux is missing, a program does not build or start, or a picture is too large.
pub(crate) fn pictures(root: &Path, folder: &Path) -> Result<(), String> {
    if !is_possible() {
        return Err(format!("pictures of the terminal need {NEEDED}"));
    }
    let (kinform, watched) = programs(root, &[])?;
    let mut program = Program::start(&watched, &["--rate", "900"])?;
    for word in SEEN {
        program.obey(word)?;
    }
    let screen = Screen::open(&kinform, &program.url, PICTURED)?;
    for (name, key, time) in PICTURES {
        screen.keys(&[key]);
        screen.pass(time);
        let shown = screen.styled();
        if !shown.contains("kinform top") {
            return Err(format!("pictures: {name}: the screen ended:\n{shown}"));
        }
        let svg = picture::svg(&shown, PICTURED);
        if svg.len() > PICTURE {
            return Err(format!("pictures: {name} is larger than {PICTURE} bytes"));
        }
        let path = folder.join(name);
        fs::write(&path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Returns whether tmux is there.
pub(crate) fn is_possible() -> bool {
    suite::is_there("tmux", "-V")
}

/// The command, and the program that is watched, of this build.
fn programs(root: &Path, flags: &[&str]) -> Result<(PathBuf, PathBuf), String> {
    let words = [&["build", "-p", "kinform-cli"], flags].concat();
    let kinform = suite::program(root, root, &words, "kinform")?;
    let words = [&["build", "--bin", "watched"], flags].concat();
    let watched = suite::program(root, &root.join("e2e"), &words, "watched")?;
    Ok((kinform, watched))
}

/// The program that is watched.
struct Program {
    child: Child,
    words: ChildStdin,
    lines: Receiver<String>,
    url: String,
}

impl Program {
    fn start(path: &Path, words: &[&str]) -> Result<Self, String> {
        let wrong = |error: std::io::Error| format!("terminal: {}: {error}", path.display());
        let mut child = Command::new(path)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(wrong)?;
        let (Some(words), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("terminal: the program has no pipes".to_owned());
        };
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut program = Self {
            child,
            words,
            lines,
            url: String::new(),
        };
        program.url = program.line("url ")?;
        Ok(program)
    }

    /// The rest of the next line that begins so.
    fn line(&self, start: &str) -> Result<String, String> {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.map_err(|_| format!("terminal: the program did not say {start:?}"))?;
            if let Some(rest) = line.strip_prefix(start) {
                return Ok(rest.to_owned());
            }
            if line.starts_with("failed ") {
                return Err(format!("terminal: the program {line}"));
            }
        }
    }

    fn obey(&mut self, word: &str) -> Result<(), String> {
        let said = writeln!(self.words, "{word}");
        said.map_err(|error| format!("terminal: {word}: {error}"))?;
        self.line(&format!("done {word}")).map(drop)
    }

    fn end(&mut self) -> Result<(), String> {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        ended
            .map(drop)
            .map_err(|error| format!("terminal: {error}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A terminal of tmux with `kinform top` in it, then a line with its exit code.
struct Screen {
    socket: String,
    size: (u16, u16),
    /// A client of tmux that reports output; `None` before the terminal is there.
    reporter: Option<Child>,
    /// A message for each piece of output.
    changes: Receiver<()>,
}

impl Screen {
    fn open(kinform: &Path, url: &str, size: (u16, u16)) -> Result<Self, String> {
        let socket = format!("kinform-{}-{}", std::process::id(), size.0);
        let (sender, changes) = mpsc::channel();
        let mut screen = Self {
            socket,
            size,
            reporter: None,
            changes,
        };
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let top = format!("{} top --attach {}", kinform.display(), place(url)?);
        let status = screen
            .tmux(&["-f", "/dev/null", "new", "-d", "-x", &width, "-y", &height])
            .arg(format!("{top}; echo CODE=$?; sleep 600"))
            // Other users of the machine see the words of a command, but not its environment. The server
            // of this socket begins here, and takes it over.
            .env("KINFORM_TOKEN", token(url)?)
            .status();
        let wrong = |error: std::io::Error| format!("terminal: tmux could not be started: {error}");
        let status = status.map_err(wrong)?;
        if !status.success() {
            return Err(format!("terminal: tmux: {status}"));
        }
        let mut reporter = screen
            .tmux(&["-C", "attach", "-f", "ignore-size,read-only"])
            // It ends with its input.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(wrong)?;
        let lines = reporter.stdout.take().map(BufReader::new);
        screen.reporter = Some(reporter);
        thread::spawn(move || {
            // As bytes: tmux cuts its output anywhere, also within a character.
            let lines = lines.into_iter().flat_map(|lines| lines.split(b'\n'));
            let output = lines
                .map_while(Result::ok)
                .filter(|line| line.starts_with(b"%output"));
            // Nobody listens any more: the checks are over.
            output
                .map(|_| sender.send(()))
                .take_while(Result::is_ok)
                .count();
        });
        Ok(screen)
    }

    /// Waits until the screen changes, or did not for a moment.
    fn pause(&self) {
        // Changes of before are on the screen.
        while self.changes.try_recv().is_ok() {}
        let _ = self.changes.recv_timeout(PAUSE);
    }

    /// Lets a time pass, or the screen end.
    fn pass(&self, time: Duration) {
        pass(&self.changes, time);
    }

    fn tmux(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(words);
        command
    }

    /// The process of `kinform top`.
    fn program(&self) -> Result<u32, String> {
        let shell = self.captured(&["list-panes", "-F", "#{pane_pid}"]);
        let shell = shell.trim().parse();
        figures::child_of(shell.map_err(|_| "terminal: tmux names no process".to_owned())?)
    }

    fn keys(&self, keys: &[&str]) {
        // A screen that is gone shows nothing, which the check that follows reports.
        let _ = self.tmux(&["send-keys"]).args(keys).status();
    }

    fn capture(&self) -> String {
        self.captured(&["capture-pane", "-p"])
    }

    /// The screen with escape sequences for its styles.
    fn styled(&self) -> String {
        self.captured(&["capture-pane", "-e", "-p"])
    }

    fn captured(&self, words: &[&str]) -> String {
        let output = self.tmux(words).output();
        let output = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Waits until the screens of a view have all of these texts, however their lines are broken.
    fn shows(&self, view: &str, facts: &[&str]) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let text = self.pages();
            let missing: Vec<_> = facts.iter().filter(|fact| !text.contains(**fact)).collect();
            if missing.is_empty() {
                return Self::has_no_secret(&text);
            }
            if began.elapsed() > PATIENCE {
                let shown = self.capture();
                return Err(format!("terminal: view {view} lacks {missing:?}:\n{shown}"));
            }
            self.pause();
        }
    }

    /// All screens of the view, with single spaces between words.
    fn pages(&self) -> String {
        self.keys(&["g"]);
        self.pause();
        let (mut text, mut last) = (String::new(), String::new());
        for _ in 0..SCREENS {
            let screen = self.capture();
            if screen == last {
                break;
            }
            text.push_str(&screen);
            last = screen;
            self.keys(&["PageDown"]);
            self.pause();
        }
        self.keys(&["g"]);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn has_no_secret(text: &str) -> Result<(), String> {
        let found = CANARY.iter().find(|canary| text.contains(**canary));
        found.map_or(Ok(()), |canary| {
            Err(format!("terminal: a Secret's value is shown: {canary}"))
        })
    }

    /// Searches objects of this name and opens the first.
    fn opens(&self, search: &str, title: &str) -> Result<(), String> {
        self.keys(&["4"]);
        self.keys(&["/"]);
        self.keys(&["C-u"]);
        self.keys(&[search, "Enter"]);
        self.shows("4", &["1 of "])?;
        self.keys(&["Enter"]);
        self.shows("object", &[title, "versions since somebody looks"])
    }

    fn finds_objects(&self) -> Result<(), String> {
        self.opens("default/fought", "default/fought of configmaps")?;
        // Nothing but this shows what an object holds.
        self.opens("default/guarded", "default/guarded of secrets")?;
        self.keys(&["y"]);
        self.shows("YAML", &["(hidden)"])?;
        self.keys(&["Escape"]);
        Ok(())
    }

    /// Looks for the program's hostile names: the head stays in the first line, and no line is lost.
    fn is_whole(&self) -> Result<(), String> {
        self.keys(&["4"]);
        self.keys(&["/"]);
        self.keys(&["C-u"]);
        self.keys(&["hostile/", "Enter"]);
        self.shows("4", &["200 of ", "hostile/<img src=x"])?;
        let screen = self.capture();
        let lines: Vec<&str> = screen.lines().collect();
        let is_whole = lines.len() == usize::from(self.size.1)
            && lines
                .first()
                .is_some_and(|line| line.starts_with("kinform top · "))
            && lines.last().is_some_and(|line| line.contains("? help"));
        match is_whole {
            true => Ok(()),
            false => Err(format!("terminal: the screen is broken:\n{screen}")),
        }
    }

    fn ends_with_its_program(&self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let screen = self.capture();
            if screen.contains("CODE=1") && screen.contains("error: ") {
                return Ok(());
            }
            if screen.contains("CODE=") || began.elapsed() > PATIENCE {
                return Err(format!("terminal: it did not end as it should:\n{screen}"));
            }
            self.pause();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A server waits for clients that do not read: this one first.
        if let Some(mut reporter) = self.reporter.take() {
            let _ = reporter.kill().and_then(|()| reporter.wait());
        }
        // The server of this socket, which may have ended.
        let _ = self.tmux(&["kill-server"]).status();
    }
}

/// Drops what comes within a time; ends earlier if nothing can come any more.
fn pass<T>(from: &Receiver<T>, time: Duration) {
    let end = Instant::now() + time;
    while let Some(rest) = end.checked_duration_since(Instant::now()) {
        if let Err(RecvTimeoutError::Disconnected) = from.recv_timeout(rest) {
            return;
        }
    }
}

/// Host and port of an inspector's address.
fn place(url: &str) -> Result<&str, String> {
    let place = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next());
    place.ok_or_else(|| format!("terminal: {url:?} is no address"))
}

fn token(url: &str) -> Result<&str, String> {
    let token = url.split_once("#token=").map(|(_, token)| token);
    token.ok_or_else(|| "terminal: the address has no token".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_place_and_a_token() {
        let url = "http://127.0.0.1:8082/debug/kinform/#token=abc";
        assert_eq!(place(url), Ok("127.0.0.1:8082"));
        assert_eq!(token(url), Ok("abc"));
        assert!(place("ftp://x").is_err() && token("http://x/").is_err());
    }

    #[test]
    fn a_canary_is_found_plain_and_as_base64() {
        assert!(Screen::has_no_secret("all is well").is_ok());
        for canary in CANARY {
            assert!(Screen::has_no_secret(&format!("x {canary} y")).is_err());
        }
    }
}
