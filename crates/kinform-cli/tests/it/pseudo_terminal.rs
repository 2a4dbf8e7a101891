//! A command on a pseudo-terminal, whose screen a test reads.
//!
//! ```text
//! kinform (a process) ─writes─▶ Terminal: its screen, 24 rows of 100 letters        keys ─▶ kinform
//! ```

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::time::Duration;

use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::tcgetattr;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedReceiver;

/// A generous limit of a wait: a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command on a pseudo-terminal, and what is on it.
pub(crate) struct Terminal {
    child: Child,
    pty: OpenptyResult,
    keys: File,
    pieces: UnboundedReceiver<String>,
    /// All that was written.
    text: String,
    before: String,
}

const ROWS: usize = 24;
const COLUMNS: usize = 100;

impl Terminal {
    /// Starts the command.
    pub(crate) fn start(mut command: Command) -> Self {
        let size = Winsize {
            ws_row: 24,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None).unwrap();
        let before = format!("{:?}", tcgetattr(&pty.slave).unwrap());
        let slave = || Stdio::from(pty.slave.try_clone().unwrap());
        command.env("TERM", "xterm");
        let child = command.stdin(slave()).stdout(slave()).stderr(slave());
        let child = child.spawn().unwrap();
        let keys = File::from(pty.master.try_clone().unwrap());
        let mut master = File::from(pty.master.try_clone().unwrap());
        let (told, pieces) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of the other side is an error to a terminal's reader.
            while let Ok(count @ 1..) = master.read(&mut bytes) {
                let _ = told.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
            }
        });
        Self {
            child,
            pty,
            keys,
            pieces,
            text: String::new(),
            before,
        }
    }

    /// Waits until the screen is so; returns it.
    pub(crate) async fn until(&mut self, is_so: impl Fn(&str) -> bool) -> String {
        let seen = async {
            loop {
                let screen = screen(&self.text);
                if is_so(&screen) {
                    return screen;
                }
                let piece = self.pieces.recv().await;
                self.text.push_str(&piece.expect("the command goes on"));
            }
        };
        let seen = tokio::time::timeout(PATIENCE, seen).await;
        seen.unwrap_or_else(|_| panic!("not seen:\n{}", screen(&self.text)))
    }

    /// Waits until a text is on the screen; returns the screen.
    pub(crate) async fn shows(&mut self, part: &str) -> String {
        self.until(|screen| screen.contains(part)).await
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end: the exit code, all that was written, and that of it after the screen.
    pub(crate) async fn end(mut self) -> (i32, String, String) {
        let code = self.child.wait().await.unwrap().code().unwrap();
        let after = format!("{:?}", tcgetattr(&self.pty.slave).unwrap());
        assert_eq!(self.before, after, "the terminal is left as it was");
        drop(self.pty);
        drop(self.keys);
        while let Ok(Some(piece)) =
            tokio::time::timeout(Duration::from_secs(1), self.pieces.recv()).await
        {
            self.text.push_str(&piece);
        }
        let (_, rest) = self.text.split_once("\u{1b}[?1049l").unwrap();
        let rest = rest.to_owned();
        (code, self.text, rest)
    }
}

/// The screen after a program's writes: cursor moves and clears are followed, styles are not.
fn screen(text: &str) -> String {
    let mut cells = vec![vec![' '; COLUMNS]; ROWS];
    let (mut row, mut column) = (0, 0);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' if letters.as_str().starts_with('[') => {
                letters.next();
                let rest = letters.as_str();
                let Some(end) = rest.find(|it: char| ('@'..='~').contains(&it)) else {
                    break;
                };
                let mut numbers = rest[..end].split(';').map(|it| it.parse().unwrap_or(1));
                match &rest[end..=end] {
                    "H" => {
                        (row, column) =
                            (numbers.next().unwrap() - 1, numbers.next().unwrap_or(1) - 1);
                    }
                    "J" => cells = vec![vec![' '; COLUMNS]; ROWS],
                    _ => {}
                }
                letters = rest[end + 1..].chars();
            }
            '\n' => row += 1,
            '\r' => column = 0,
            letter => {
                if let Some(cell) = cells
                    .get_mut(row)
                    .and_then(|row: &mut Vec<char>| row.get_mut(column))
                {
                    *cell = letter;
                }
                column += 1;
            }
        }
    }
    let line = |row: Vec<char>| row.into_iter().collect::<String>().trim_end().to_owned();
    cells.into_iter().map(line).collect::<Vec<_>>().join("\n")
}
