//! The book's shell blocks, run as a reader would type them.
//!
//! ```text
//! docs/book/src/*.md ──blocks──▶ commands ──shell──▶ what they print ──masks──▶ what the book shows?
//! ```
//!
//! The blocks of a chapter share a shell and a folder; a few chapters run at a time. A command that
//! fails must be followed by `echo $?`. A block that is not run says why.

mod blocks;
mod masks;
mod shell;

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use self::blocks::{Command, Step};
use self::shell::Shell;

/// The result of a chapter: blocks that were not run, and faults.
#[derive(Default)]
struct Report {
    ran: usize,
    not_run: Vec<String>,
    faults: Vec<String>,
}

#[test]
fn each_console_block_of_the_book_prints_what_the_book_shows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src");
    let entries = fs::read_dir(&folder).unwrap();
    let mut chapters: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    chapters.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    chapters.sort();
    // More would make programs wait for the processor longer than they wait for a server.
    let at_once = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    let to_come = Mutex::new(chapters.iter());
    let next = || to_come.lock().unwrap().next();
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let run = || std::iter::from_fn(next).map(|path| chapter(path)).collect();
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(run)).collect();
        let reports = threads.into_iter().map(|thread| thread.join().unwrap());
        reports.flat_map(|of: Vec<Report>| of).collect()
    });
    let commands: usize = reports.iter().map(|report| report.ran).sum();
    println!("book: {commands} commands ran");
    for note in reports.iter().flat_map(|report| &report.not_run) {
        println!("book: not run: {note}");
    }
    let faults: Vec<&str> = reports
        .iter()
        .flat_map(|report| report.faults.iter().map(String::as_str))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// Runs the blocks of one chapter, up to the first that goes wrong.
fn chapter(path: &Path) -> Report {
    let mut report = Report::default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let steps = match blocks::steps(&fs::read_to_string(path).unwrap()) {
        Ok(steps) => steps,
        Err(why) => {
            report.faults.push(format!("{name}: {why}"));
            return report;
        }
    };
    let mut shell = None;
    for step in steps {
        match step {
            Step::File { name, text } => shell.get_or_insert_with(Shell::start).write(&name, &text),
            Step::NotRun { line, reason } if reason.is_empty() => {
                let fault = format!("{name}:{line}: a block that is not run needs a reason");
                report.faults.push(fault);
            }
            Step::NotRun { line, reason } => {
                report.not_run.push(format!("{name}:{line}: {reason}"));
            }
            Step::Block(commands) => {
                let shell = shell.get_or_insert_with(Shell::start);
                report.ran += commands.len();
                if let Err((line, why)) = block(shell, &commands) {
                    report.faults.push(format!("{name}:{line}: {why}"));
                    break;
                }
            }
        }
    }
    report
}

/// Runs the commands of a block.
fn block(shell: &mut Shell, commands: &[Command]) -> Result<(), (usize, String)> {
    for (at, command) in commands.iter().enumerate() {
        let is_shown = |lines: &[String]| masks::compare(&command.output, lines).is_ok();
        let failed = |why: String| (command.line, format!("$ {}\n{why}", command.script));
        let printed = shell.run(&command.script, is_shown).map_err(failed)?;
        let told = printed.lines.join("\n");
        masks::compare(&command.output, &printed.lines)
            .map_err(|why| failed(format!("{why}; the whole output:\n{told}")))?;
        let says_code = commands
            .get(at + 1)
            .is_some_and(|next| next.script == "echo $?");
        if printed.code != 0 && !says_code {
            return Err(failed(format!("exit code {}:\n{told}", printed.code)));
        }
    }
    Ok(())
}
