//! kubectl, unmodified, and a story of commands that it runs against two servers.
//!
//! ```text
//! kubectl/story.txt ──▶ [Step] ──kubectl──▶ server ──▶ Told { code, out, err } ──▶ compared, step by step
//! ```
//!
//! A step is a command line and its input. Values that servers choose for themselves (uids,
//! versions, times, ages, addresses, ports) are replaced by words before transcripts are compared,
//! and the width of columns is ignored. Steps that differ are listed in `kubectl/differences.txt`
//! with a reason; a listed step that matches is an error in the list.
//!
//! Two releases run the story. One is the real server's, built from its module next to it. The
//! other is 1.20, which distributions still ship, fetched by their package manager where there is
//! one.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The time that one command may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The editor for `kubectl edit`: it changes one word.
const EDITOR: &str = "sed -i -e s/two/edited/";
/// The word in the story that stands for whatever is the teller's own.
const OWN: &str = "story";

/// One command of the story.
#[derive(Clone, Debug)]
pub struct Step {
    /// The command line without `kubectl`, and a number if it is repeated.
    pub id: String,
    words: Vec<String>,
    input: String,
    is_newer: bool,
}

/// A release of kubectl.
#[derive(Clone, Debug)]
pub struct Release {
    /// Its minor version: 20, 37.
    pub minor: u32,
    program: PathBuf,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The exit code; `None` if the command had to be stopped.
    pub code: Option<i32>,
    /// Its standard output, without values that servers choose.
    pub out: String,
    /// Its standard error, likewise.
    pub err: String,
}

/// Reads the story.
pub fn story(text: &str) -> Vec<Step> {
    let (mut steps, mut times) = (Vec::<Step>::new(), HashMap::<String, usize>::new());
    for line in text.lines() {
        if let Some(input) = line.strip_prefix("  ") {
            if let Some(step) = steps.last_mut() {
                step.input += input;
                step.input.push('\n');
            }
            continue;
        }
        let Some((mark, command)) = line.split_once(' ').filter(|_| line.starts_with('$')) else {
            continue;
        };
        let time = times.entry(command.to_owned()).or_default();
        *time += 1;
        steps.push(Step {
            id: match time {
                1 => command.to_owned(),
                time => format!("{command} #{time}"),
            },
            words: words(command),
            input: String::new(),
            is_newer: mark == "$new",
        });
    }
    steps
}

/// Splits at spaces; a backslash keeps the next character as it is.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut letters) = (Vec::new(), String::new(), command.chars());
    while let Some(letter) = letters.next() {
        match letter {
            ' ' => words.push(std::mem::take(&mut word)),
            '\\' => word.extend(letters.next()),
            letter => word.push(letter),
        }
    }
    words.push(word);
    words
}

/// Reads the steps that differ for a release, with their reasons.
pub fn differences(text: &str, minor: u32) -> HashMap<String, String> {
    let (mut listed, mut step) = (HashMap::new(), "");
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            step = command;
        } else if let Some((releases, reason)) = line.trim().split_once(": ")
            && line.starts_with("  ")
        {
            let mut releases = releases.split(' ');
            if releases.any(|release| release == "both" || release == format!("1.{minor}")) {
                listed.insert(step.to_owned(), reason.to_owned());
            }
        }
    }
    listed
}

impl Release {
    /// The release built with the real server.
    pub fn newest(cache: &Path) -> Option<Self> {
        let program = cache.join("bin/kubectl");
        let minor = 37;
        program.is_file().then_some(Self { minor, program })
    }

    /// The one that Debian still ships, fetched once by its package manager.
    ///
    /// # Errors
    /// The reason why it is not available.
    pub fn oldest(cache: &Path) -> Result<Self, String> {
        let place = cache.join("kubectl-1.20");
        let program = place.join("usr/bin/kubectl");
        if !program.is_file() {
            fs::create_dir_all(&place).map_err(|error| error.to_string())?;
            run(Command::new("apt-get")
                .args(["download", "kubernetes-client"])
                .current_dir(&place))?;
            let package = fs::read_dir(&place)
                .map_err(|error| error.to_string())?
                .filter_map(|entry| Some(entry.ok()?.path()))
                .find(|path| path.extension().is_some_and(|kind| kind == "deb"))
                .ok_or("the package manager fetched no package")?;
            run(Command::new("dpkg").arg("-x").arg(package).arg(&place))?;
        }
        let asked = Command::new(&program)
            .args(["version", "--client", "--short"])
            .output();
        let said = asked.map_err(|error| error.to_string())?.stdout;
        if !String::from_utf8_lossy(&said).contains("v1.20.") {
            return Err("the distribution's kubectl is not of 1.20".to_owned());
        }
        Ok(Self { minor: 20, program })
    }

    /// Runs a story against one server.
    ///
    /// # Errors
    /// A command cannot be started.
    pub fn tell(
        &self,
        story: &[Step],
        kubeconfig: &Path,
        home: &Path,
    ) -> io::Result<Vec<(String, Told)>> {
        let steps = story
            .iter()
            .filter(|step| !step.is_newer || self.minor > 20);
        steps
            .map(|step| Ok((step.id.clone(), self.ask(step, kubeconfig, home)?)))
            .collect()
    }

    /// Runs one step.
    fn ask(&self, step: &Step, kubeconfig: &Path, home: &Path) -> io::Result<Told> {
        let own = format!("{OWN}{}", self.minor);
        let file = |name: &str| home.join(format!("kubectl-{}.{name}", self.minor));
        fs::write(file("in"), step.input.replace(OWN, &own))?;
        let mut child = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--cache-dir")
            .arg(file("cache"))
            .args(["--namespace", &own])
            .args(step.words.iter().map(|word| word.replace(OWN, &own)))
            .env("HOME", home)
            .env("KUBE_EDITOR", EDITOR)
            .env_remove("KUBECONFIG")
            .stdin(File::open(file("in"))?)
            .stdout(Stdio::piped())
            .stderr(File::create(file("err"))?)
            .spawn()?;
        let (end, ended) = mpsc::channel();
        if let Some(mut out) = child.stdout.take() {
            thread::spawn(move || {
                let mut said = Vec::new();
                let _ = out.read_to_end(&mut said).and_then(|_| {
                    // The send fails if the command took too long, when the receiver is gone.
                    end.send(said).map_err(io::Error::other)
                });
            });
        }
        let said = ended.recv_timeout(PATIENCE).ok();
        if said.is_none() {
            child.kill()?;
        }
        let code = child.wait()?.code();
        let heard = |bytes: &[u8]| plain(&String::from_utf8_lossy(bytes).replace(&own, OWN));
        let out = heard(&said.unwrap_or_default());
        let out = match step.words[0].as_str() {
            "explain" => without_prose(&out),
            _ => out,
        };
        let err = heard(&fs::read(file("err"))?);
        Ok(Told { code, out, err })
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(format!("{name}: {}", said.trim()))
}

/// The directory that holds the real server's programs.
pub fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    cache.join("kinform-oracle")
}

/// A text without values that servers choose: line by line, with words for them and one space
/// between columns.
fn plain(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let is_version = ["resourceVersion", "Resource Version"]
            .iter()
            .any(|name| line.contains(name));
        let words = line
            .split_whitespace()
            .map(|word| plain_word(word, is_version));
        let words: Vec<String> = words.collect();
        lines.push(format!("{}{}", " ".repeat(indent), words.join(" ")));
    }
    lines.join("\n")
}

/// A word with names for the values that servers choose.
fn plain_word(word: &str, is_version: bool) -> String {
    // Pieces that may stand between quotes, in brackets, after a slash.
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-.:+".contains(letter);
    let (mut out, mut piece) = (String::new(), String::new());
    for letter in word.chars() {
        if is_part(letter) {
            piece.push(letter);
            continue;
        }
        out += plain_piece(&std::mem::take(&mut piece), is_version).as_str();
        out.push(letter);
    }
    out + plain_piece(&piece, is_version).as_str()
}

fn plain_piece(piece: &str, is_version: bool) -> String {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let dashes: Vec<usize> = piece.split('-').map(str::len).collect();
    let address = piece.split([':', '.']).take(4).all(digits);
    let core = piece.trim_end_matches(['.', ':']);
    let is_made = |name: &&&str| {
        let rest = piece.strip_prefix(**name);
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    if let Some(name) = ["made-", "LIVE-", "MERGED-"].iter().find(is_made) {
        return format!("{name}x");
    }
    let named = if dashes == [8, 4, 4, 4, 12] {
        "UID"
    } else if is_time(core) {
        "TIME"
    } else if is_age(core) {
        "AGE"
    } else if piece.starts_with("127.0.0.1:") || piece.starts_with("127.0.0.1.") {
        "HOST"
    } else if address && piece.matches('.').count() == 3 && piece.starts_with("10.") {
        "CLUSTER-IP"
    } else if digits(core) && is_version {
        "VERSION"
    } else if is_door(core) {
        "PORT"
    } else {
        return piece.to_owned();
    };
    format!("{named}{}", &piece[core.len()..])
}

/// A port of nodes that a server chose: not the one that the story asks for.
fn is_door(piece: &str) -> bool {
    let port = piece.parse::<u32>();
    port.is_ok_and(|port| (30_000..=32_767).contains(&port) && port != 30_123)
}

/// `2026-01-01T00:00:00Z`, or as people write it.
fn is_time(piece: &str) -> bool {
    let clock = |text: &str| {
        let parts: Vec<&str> = text.split(':').collect();
        parts.len() == 3
            && parts
                .iter()
                .all(|part| part.len() >= 2 && part.as_bytes()[0].is_ascii_digit())
    };
    piece.split_once('T').is_some_and(|(_, time)| clock(time)) || clock(piece)
}

/// `5s`, `2m10s`, `3d`.
fn is_age(piece: &str) -> bool {
    let units = piece
        .split(|letter: char| letter.is_ascii_digit())
        .filter(|unit| !unit.is_empty());
    let units: Vec<&str> = units.collect();
    let begins = piece
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_digit());
    let known = |unit: &&str| ["s", "m", "h", "d", "y"].contains(unit);
    begins && !units.is_empty() && units.iter().all(known)
}

/// The facts about fields, without upstream's descriptions.
fn without_prose(text: &str) -> String {
    let is_fact = |line: &&str| {
        let facts = [
            "GROUP:",
            "KIND:",
            "VERSION:",
            "FIELD:",
            "FIELDS:",
            "RESOURCE:",
        ];
        let line = line.trim_start();
        let is_field = || {
            line.split(' ')
                .nth(1)
                .is_some_and(|word| word.starts_with('<'))
        };
        facts.iter().any(|fact| line.starts_with(fact)) || line.starts_with("enum:") || is_field()
    };
    let lines: Vec<&str> = text.lines().filter(is_fact).collect();
    lines.join("\n")
}

/// The beginning of a reason for a difference that depends on timing.
const NOW_AND_THEN: &str = "now and then, ";

/// Compares two servers' results; returns the report's lines and the unexpected differences.
pub fn compare(
    real: &[(String, Told)],
    ours: &[(String, Told)],
    listed: &HashMap<String, String>,
) -> (Vec<String>, Vec<String>) {
    let (mut report, mut wrong) = (Vec::new(), Vec::new());
    let mut same = 0;
    for ((id, real), (_, ours)) in real.iter().zip(ours) {
        match (is_same(real, ours), listed.get(id)) {
            (true, None) => same += 1,
            (true, Some(reason)) if reason.starts_with(NOW_AND_THEN) => same += 1,
            (true, Some(reason)) => {
                wrong.push(format!("$ {id}\n  is listed ({reason}), but matches"))
            }
            (false, Some(reason)) if has_sign(reason, real, ours) => {
                report.push(format!("differs: {id}: {reason}"));
            }
            (false, _) => wrong.push(format!("$ {id}\n{}", gap(real, ours))),
        }
    }
    let known: BTreeSet<&String> = real.iter().map(|(id, _)| id).collect();
    for id in listed.keys().filter(|id| !known.contains(id)) {
        wrong.push(format!("$ {id}\n  is listed, but not in the story"));
    }
    report.insert(0, format!("{same} of {} commands are the same", real.len()));
    (report, wrong)
}

/// Returns whether one of both outputs contains the word in backticks of the reason, if there is
/// one. Any other difference of that command is not listed.
fn has_sign(reason: &str, real: &Told, ours: &Told) -> bool {
    let sign = reason.split('`').nth(1);
    sign.is_none_or(|sign| [real, ours].iter().any(|told| told.out.contains(sign)))
}

/// Returns whether both results are the same. Owners of fields are in the order of their times,
/// which may fall into one second or two: where they are shown, the order of lines is not compared.
fn is_same(real: &Told, ours: &Told) -> bool {
    let has_owners = |told: &Told| {
        let names = ["managedFields", "Managed Fields"];
        names.iter().any(|name| told.out.contains(name))
    };
    let sorted = |told: &Told| {
        let mut lines: Vec<String> = told.out.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        (told.code, lines, told.err.clone())
    };
    real == ours || (has_owners(real) && sorted(real) == sorted(ours))
}

/// The lines that only one of the servers printed.
fn gap(real: &Told, ours: &Told) -> String {
    let mut lines = Vec::new();
    if real.code != ours.code {
        lines.push(format!("  exit code: {:?} / {:?}", real.code, ours.code));
    }
    for (name, real, ours) in [("out", &real.out, &ours.out), ("err", &real.err, &ours.err)] {
        let (all, known): (Vec<&str>, Vec<&str>) = (real.lines().collect(), ours.lines().collect());
        let only = |of: &[&str], other: &[&str], whose: &str| {
            of.iter()
                .filter(|line| !other.contains(line))
                .map(|line| format!("  {name} {whose}: {line}"))
                .collect::<Vec<String>>()
        };
        lines.extend(only(&all, &known, "real"));
        lines.extend(only(&known, &all, "ours"));
        if real != ours && lines.is_empty() {
            lines.push(format!("  {name}: other order\n{real}\n  /\n{ours}"));
        }
    }
    // BOUND: the report is for people.
    lines.truncate(24);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_choose_is_replaced_by_words() {
        for (line, want) in [
            ("web   1/2     1    3m20s", "web 1/2 1 AGE"),
            ("  uid: 1e7fe5b3-37e6-44b6-af68-249c3b8a931b", "  uid: UID"),
            (r#"  time: "2026-11-21T09:18:19Z""#, r#"  time: "TIME""#),
            (
                r#""resourceVersion": "1042","#,
                r#""resourceVersion": "VERSION","#,
            ),
            ("https://127.0.0.1:26443/api", "https://HOST/api"),
            ("configmap/made-x7f2k created", "configmap/made-x created"),
            (
                "10.0.0.12 <none> 80:30123/TCP",
                "CLUSTER-IP <none> 80:30123/TCP",
            ),
            ("nginx:1.25 1 512Mi", "nginx:1.25 1 512Mi"),
        ] {
            assert_eq!(plain(line), want);
        }
    }

    #[test]
    fn a_story_is_commands_with_their_input() {
        let steps = story("# why\n$ get a\\ b c\n\n$new apply -f -\n  a:\n    b\n$ get a\\ b c\n");
        let ids: Vec<&str> = steps.iter().map(|step| &*step.id).collect();
        assert_eq!(ids, ["get a\\ b c", "apply -f -", "get a\\ b c #2"]);
        assert_eq!(steps[0].words, ["get", "a b", "c"]);
        assert_eq!((&*steps[1].input, steps[1].is_newer), ("a:\n  b\n", true));
        let listed = differences("$ get a\n  both: so\n$ b\n  1.20: it is\n", 37);
        assert_eq!(listed.keys().collect::<Vec<_>>(), ["get a"]);
    }

    #[test]
    fn a_listed_difference_is_that_one_and_no_other() {
        let told = |out: &str| {
            let out = out.to_owned();
            let err = String::new();
            vec![(
                "get a".to_owned(),
                Told {
                    code: Some(0),
                    out,
                    err,
                },
            )]
        };
        let listed = |reason: &str| HashMap::from([("get a".to_owned(), reason.to_owned())]);
        let now_and_then = listed("now and then, it warns: `Warned`");
        for (real, ours, listed, is_wrong) in [
            ("a", "a", listed("so"), true),
            ("a", "b", listed("so"), false),
            ("a", "b", HashMap::new(), true),
            ("a", "a", now_and_then.clone(), false),
            ("a Warned", "a", now_and_then.clone(), false),
            ("a", "b", now_and_then, true),
        ] {
            let (_, wrong) = compare(&told(real), &told(ours), &listed);
            assert_eq!(!wrong.is_empty(), is_wrong, "{real} {ours} {listed:?}");
        }
    }
}
