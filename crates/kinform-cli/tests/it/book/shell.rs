//! One shell in a folder of its own, and the commands that it is given.
//!
//! ```text
//! script ──stdin──▶ sh: { script } >out 2>err ──a line with the exit code──▶ Printed
//! ```
//!
//! Variables, the folder and programs in the background are kept from one command to the next. At the
//! end the shell's process group is killed.
//! BOUND: a command has [`PATIENCE`].

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

const PATIENCE: Duration = Duration::from_secs(60);
/// BOUND: the time for a program in the background to print what the book shows.
const BEGIN_WITHIN: Duration = Duration::from_secs(20);
/// The time between two looks at what a program in the background has printed.
const LOOK_EACH: Duration = Duration::from_millis(20);

/// A running shell.
pub(super) struct Shell {
    child: Child,
    input: ChildStdin,
    ended: Receiver<String>,
    folder: tempfile::TempDir,
    /// The outputs of commands, outside of the folder that they see.
    outputs: tempfile::TempDir,
    code: i32,
    commands: usize,
}

/// The exit code and the output of a command.
pub(super) struct Printed {
    pub(super) code: i32,
    pub(super) lines: Vec<String>,
}

impl Shell {
    pub(super) fn start() -> Self {
        let (folder, outputs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let program = Path::new(env!("CARGO_BIN_EXE_kinform"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", program.parent().unwrap().display());
        let errors = fs::File::create(outputs.path().join("shell")).unwrap();
        let mut child = Command::new("sh")
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", path)
            .env("HOME", folder.path())
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .process_group(0)
            .spawn()
            .unwrap();
        let (sender, ended) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take().unwrap(),
            child,
            ended,
            folder,
            outputs,
            code: 0,
            commands: 0,
        }
    }

    /// Writes a file into the folder.
    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The lines of both outputs, with `$PWD` for the folder.
    fn printed(&self, out: &Path, err: &Path) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        let lines = read(out, err).into_iter();
        lines.map(|line| line.replace(&folder, "$PWD")).collect()
    }

    /// Runs a command. One in the background is given until it has printed what `is_enough`.
    ///
    /// # Errors
    /// It did not end in time.
    pub(super) fn run(
        &mut self,
        script: &str,
        is_enough: impl Fn(&[String]) -> bool,
    ) -> Result<Printed, String> {
        self.commands += 1;
        let stem = self.outputs.path().join(self.commands.to_string());
        let (out, err) = (stem.with_extension("out"), stem.with_extension("err"));
        let (shown_out, shown_err) = (out.display(), err.display());
        writeln!(
            self.input,
            "{{ (exit {}); {script}\n}} >{shown_out} 2>{shown_err} </dev/null; echo $?",
            self.code
        )
        .map_err(|error| format!("the shell is gone: {error}"))?;
        let line = match self.ended.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(_) => {
                let lines = self.printed(&out, &err).join("\n");
                return Err(format!("it did not end; it printed:\n{lines}"));
            }
        };
        self.code = line
            .parse()
            .map_err(|_| format!("{line:?} is no exit code"))?;
        let limit = Instant::now() + BEGIN_WITHIN;
        let is_background = script.trim_end().ends_with('&');
        loop {
            let lines = self.printed(&out, &err);
            if !is_background || is_enough(&lines) || Instant::now() > limit {
                return Ok(Printed {
                    code: self.code,
                    lines,
                });
            }
            // The shell says no more meanwhile: this waits.
            if let Err(RecvTimeoutError::Disconnected) = self.ended.recv_timeout(LOOK_EACH) {
                return Err("the shell is gone".to_owned());
            }
        }
    }
}

/// The lines of both outputs, standard output first.
fn read(out: &Path, err: &Path) -> Vec<String> {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let both = [text(out), text(err)];
    let lines = both.iter().flat_map(|text| text.lines());
    lines.map(str::to_owned).collect()
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        // It may have ended by itself.
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

#[test]
fn a_shell_keeps_variables_and_codes_and_waits_for_what_is_in_the_background() {
    let mut shell = Shell::start();
    shell.write("here", "a file\n");
    for (script, code, expected) in [
        ("word=kept; false", 1, &[][..]),
        ("echo $? $word", 0, &["1 kept"]),
        ("cat here; echo wrong >&2", 0, &["a file", "wrong"]),
        ("mkdir inner; cd inner; pwd", 0, &["$PWD/inner"]),
        ("pwd", 0, &["$PWD/inner"]),
        ("cat <<'END'\ntwo\nlines\nEND", 0, &["two", "lines"]),
        (
            "(until [ -e ../here ]; do :; done; echo begun) &",
            0,
            &["begun"],
        ),
    ] {
        let is_enough = |lines: &[String]| lines == expected;
        let printed = shell.run(script, is_enough).unwrap();
        assert_eq!(
            (printed.code, printed.lines),
            (code, lines(expected)),
            "{script}"
        );
    }
}

fn lines(of: &[&str]) -> Vec<String> {
    of.iter().map(|line| (*line).to_owned()).collect()
}
