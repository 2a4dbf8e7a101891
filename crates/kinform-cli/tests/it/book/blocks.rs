//! The steps that a chapter asks for: commands with their output, files, and blocks that are not run.
//!
//! ```text
//! ```console          ──▶ Step::Block [Command { line, script, output }]
//! $ a command
//! > its next line
//! what it prints
//! ```
//! <!-- file: NAME --> and a block   ──▶ Step::File
//! <!-- not run: REASON --> and a block of a console ──▶ Step::NotRun
//! ```

/// One thing that a chapter asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A block of a console.
    Block(Vec<Command>),
    /// A block that is written into the folder.
    File { name: String, text: String },
    /// A block of a console that is not run.
    NotRun { line: usize, reason: String },
}

/// A command and its output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// The line in the chapter.
    pub(super) line: usize,
    pub(super) script: String,
    /// The lines that it prints.
    pub(super) output: Vec<String>,
}

/// The steps of a chapter, in order.
///
/// # Errors
/// A block that begins without a command, or a comment without its block.
pub(super) fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut found = Vec::new();
    let mut note: Option<(usize, &str)> = None;
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        if let Some(comment) = comment(line) {
            note = Some((number, comment));
            continue;
        }
        let Some(language) = line.strip_prefix("```") else {
            if !line.trim().is_empty()
                && let Some((at, note)) = note.take()
            {
                return Err(format!("line {at}: no block follows {note:?}"));
            }
            continue;
        };
        let body: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, line)| *line != "```")
            .collect();
        match note.take() {
            Some((_, note)) if note.starts_with("file:") => found.push(Step::File {
                name: note["file:".len()..].trim().to_owned(),
                text: body.iter().map(|(_, line)| format!("{line}\n")).collect(),
            }),
            Some((_, note)) if language == "console" => found.push(Step::NotRun {
                line: number,
                reason: note["not run:".len()..].trim().to_owned(),
            }),
            Some((at, note)) => {
                return Err(format!("line {at}: {note:?} is no block of a console"));
            }
            None if language == "console" => found.push(Step::Block(commands(&body)?)),
            None => {}
        }
    }
    Ok(found)
}

/// A comment that is meant for the runner.
fn comment(line: &str) -> Option<&str> {
    let inside = line.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    let is_ours = ["file:", "not run:"]
        .iter()
        .any(|start| inside.starts_with(start));
    is_ours.then_some(inside)
}

fn commands(body: &[(usize, &str)]) -> Result<Vec<Command>, String> {
    let mut found: Vec<Command> = Vec::new();
    for (line, text) in body {
        if let Some(script) = text.strip_prefix("$ ") {
            found.push(Command {
                line: *line,
                script: script.to_owned(),
                output: Vec::new(),
            });
            continue;
        }
        let Some(last) = found.last_mut() else {
            return Err(format!(
                "line {line}: a block of a console begins with `$ `"
            ));
        };
        match text.strip_prefix("> ") {
            Some(next) if last.output.is_empty() => {
                last.script.push('\n');
                last.script.push_str(next);
            }
            _ => last.output.push((*text).to_owned()),
        }
    }
    Ok(found)
}

#[test]
fn a_chapter_is_read_as_commands_files_and_reasons() {
    let command = |line, script: &str, output: &[&str]| Command {
        line,
        script: script.to_owned(),
        output: output.iter().map(|line| (*line).to_owned()).collect(),
    };
    for (text, expected) in [
        ("text\n```rust\n$ a\n```\n", Ok(vec![])),
        (
            "```console\n$ a\nb\n$ c \\\n> d\n```\n",
            Ok(vec![Step::Block(vec![
                command(2, "a", &["b"]),
                command(4, "c \\\nd", &[]),
            ])]),
        ),
        (
            "<!-- file: x.yaml -->\n\n```yaml\na: 1\n```\n",
            Ok(vec![Step::File {
                name: "x.yaml".to_owned(),
                text: "a: 1\n".to_owned(),
            }]),
        ),
        (
            "<!-- not run: needs a cluster -->\n```console\n$ a\n```\n",
            Ok(vec![Step::NotRun {
                line: 2,
                reason: "needs a cluster".to_owned(),
            }]),
        ),
        (
            "<!-- not run: -->\n```console\n$ a\n```\n",
            Ok(vec![Step::NotRun {
                line: 2,
                reason: String::new(),
            }]),
        ),
        ("<!-- a remark -->\ntext\n", Ok(vec![])),
        ("```console\na\n```\n", Err(())),
        ("<!-- not run: x -->\ntext\n", Err(())),
        ("<!-- not run: x -->\n```rust\n```\n", Err(())),
    ] {
        assert_eq!(steps(text).map_err(drop), expected, "{text}");
    }
}
