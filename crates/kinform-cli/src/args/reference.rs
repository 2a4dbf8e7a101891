//! The reference of the command line, as pages of the book: made from the parsers, and compared.
//!
//! ```text
//! Cli, Flags ──clap's Command──▶ sections ──▶ the part of a page between two marks: equal, or written
//! ```
//!
//! Only tests are here. Hidden flags, `--help` and `--version` are left out. The options of a
//! connection and of a selection have a section each, which other sections name.
//!
//! Upstream counterpart: cobra's `doc` package, of which kubectl's reference is made.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Args as _, Command, CommandFactory as _};
use kinform_operator::Flags;

use super::Cli;
use super::cluster::{ClusterArgs, SelectArgs};
use crate::exit::{Ending, Failure};

const CLI_PAGE: &str = "cli-reference.md";
const FLAGS_PAGE: &str = "operator-flags.md";
const BEGIN: &str =
    "<!-- Made from the code by `KINFORM_RECORD=1 cargo test -p kinform-cli reference`. -->\n";
const END: &str = "<!-- End of what is made. -->\n";
/// The columns of a line of Markdown.
const COLUMNS: usize = 100;

/// Options that several commands have.
struct Group {
    title: &'static str,
    items: Vec<String>,
}

impl Group {
    fn new(title: &'static str, mut options: Command) -> Self {
        options.build();
        let items = items(&options);
        Self { title, items }
    }

    fn anchor(&self) -> String {
        format!("#{}", self.title.to_lowercase().replace(' ', "-"))
    }
}

/// The commands as sections, then the options that they share.
fn commands() -> String {
    let groups = [
        Group::new(
            "Cluster and user",
            ClusterArgs::augment_args(Command::new("cluster")),
        ),
        Group::new(
            "Selection of objects",
            SelectArgs::augment_args(Command::new("select")),
        ),
    ];
    let mut command = Cli::command().bin_name("kinform");
    command.build();
    let mut text = String::new();
    for command in command.get_subcommands() {
        section(&mut text, command, &groups);
    }
    for group in &groups {
        let _ = write!(text, "## {}\n\n{}\n", group.title, group.items.concat());
    }
    text.trim_end().to_owned() + "\n"
}

fn section(text: &mut String, command: &Command, groups: &[Group]) {
    if command.get_name() == "help" || command.is_hide_set() {
        return;
    }
    let name = command.get_bin_name().unwrap_or_default();
    let about = sentence(&command.get_about().unwrap_or_default().to_string());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines().map(str::trim);
    let usage: Vec<&str> = usage.filter(|line| !line.is_empty()).collect();
    let _ = write!(
        text,
        "## {name}\n\n{}\n```text\n{}\n```\n\n",
        wrapped("", &about),
        usage.join("\n")
    );
    let mut items = items(command);
    let mut shared = Vec::new();
    for group in groups {
        if group.items.iter().all(|item| items.contains(item)) {
            items.retain(|item| !group.items.contains(item));
            let title = group.title.to_lowercase();
            shared.push(format!("[{title}]({})", group.anchor()));
        }
    }
    let _ = write!(text, "{}", items.concat());
    if !items.is_empty() {
        text.push('\n');
    }
    if !shared.is_empty() {
        let shared = format!("Also the options of {}.", shared.join(" and "));
        let _ = writeln!(text, "{}", wrapped("", &shared));
    }
    for command in command.get_subcommands() {
        section(text, command, groups);
    }
}

/// The flags of an operator, in the order of their declaration.
fn flags() -> String {
    let mut command = Flags::augment_args(Command::new("operator"));
    command.build();
    items(&command).concat()
}

/// An item for each argument, those without a name first.
fn items(command: &Command) -> Vec<String> {
    // Those of clap itself are flags as `--help`; `new --version` takes a value.
    let is_shown = |arg: &&Arg| {
        let action = arg.get_action();
        let is_claps = matches!(action, ArgAction::Help | ArgAction::Version);
        !arg.is_hide_set() && !is_claps
    };
    let (positional, named): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(is_shown)
        .partition(|arg| arg.is_positional());
    let args = positional.into_iter().chain(named);
    args.map(|arg| item(command, arg)).collect()
}

fn item(command: &Command, arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("`-{short}`, "));
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let dashes = if arg.is_last_set() { "-- " } else { "" };
    let mut words = format!("{}`{dashes}{arg}`", short.unwrap_or_default());
    if arg.is_required_set() && !arg.is_positional() {
        words.push_str(", required");
    }
    let _ = write!(
        words,
        ": {}",
        sentence(&help.unwrap_or_default().to_string())
    );
    let values = arg.get_possible_values();
    let values: Vec<String> = values
        .iter()
        .filter(|v| !v.is_hide_set())
        .map(value)
        .collect();
    let takes_value = arg.get_action().takes_values();
    // The values of a yes or no are known.
    let is_bool = values.first().is_some_and(|first| first == "`true`");
    if takes_value && !values.is_empty() && !is_bool {
        let _ = write!(words, " Values: {}.", values.join(", "));
    }
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|it| format!("`{}`", it.to_string_lossy()))
        .collect();
    if takes_value && !defaults.is_empty() {
        let _ = write!(words, " Default: {}.", defaults.join(", "));
    }
    if let Some(name) = arg.get_env() {
        let _ = write!(words, " Environment: `{}`.", name.to_string_lossy());
    }
    if matches!(arg.get_action(), ArgAction::Append) && !arg.is_positional() {
        words.push_str(" May be repeated.");
    }
    let others = command.get_arg_conflicts_with(arg);
    let others: Vec<String> = others
        .iter()
        .map(|other| format!("`{}`", bare(other)))
        .collect();
    if !others.is_empty() {
        let _ = write!(words, " Not with {}.", others.join(", "));
    }
    wrapped("- ", &words)
}

/// An argument without its values.
fn bare(arg: &Arg) -> String {
    match arg.get_long() {
        Some(long) => format!("--{long}"),
        None => arg.to_string(),
    }
}

/// A possible value and what it means.
fn value(value: &clap::builder::PossibleValue) -> String {
    let name = format!("`{}`", value.get_name());
    let help = value.get_help().map(ToString::to_string);
    match help.filter(|help| !help.eq_ignore_ascii_case(value.get_name())) {
        Some(help) => format!("{name} ({})", escaped(&help)),
        None => name,
    }
}

/// Help as a sentence, with marks of Markdown escaped.
fn sentence(help: &str) -> String {
    let help = escaped(help.trim());
    match help.ends_with(['.', '?', '`']) || help.is_empty() {
        true => help,
        false => help + ".",
    }
}

/// Text with the marks of Markdown escaped, outside of code.
fn escaped(text: &str) -> String {
    let mut is_code = false;
    let mut out = String::new();
    for letter in text.chars() {
        is_code ^= letter == '`';
        if !is_code && matches!(letter, '*' | '_' | '<' | '[' | ']') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// Lines of at most [`COLUMNS`], indented as an item with this mark. Code is not broken.
fn wrapped(mark: &str, text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut is_code = false;
    for word in text.split_whitespace() {
        match words.last_mut().filter(|_| is_code) {
            Some(last) => *last = format!("{last} {word}"),
            None => words.push(word.to_owned()),
        }
        is_code ^= word.matches('`').count() % 2 == 1;
    }
    let mut lines = vec![mark.trim_end().to_owned()];
    let indent = " ".repeat(mark.len());
    for word in &words {
        let line = lines.last_mut().expect("there is a first line");
        let is_empty = line.is_empty();
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(format!("{indent}{word}"));
        } else {
            line.push_str(if is_empty { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

fn path_of(page: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/book/src")
        .join(page)
}

/// Compares a page with what it should have between its marks, or writes it.
#[track_caller]
fn check_page(page: &str, made: &str) {
    let path = path_of(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the page has a first mark");
    let (found, after) = rest.split_once(END).expect("the page has a last mark");
    let made = format!("\n{made}\n");
    if found == made {
        return;
    }
    if std::env::var_os("KINFORM_RECORD").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    let old = found
        .lines()
        .find(|line| !made.lines().any(|it| it == *line));
    let new = made
        .lines()
        .find(|line| !found.lines().any(|it| it == *line));
    panic!("{page} is not what the code says, as {old:?} and {new:?}: {BEGIN}");
}

#[test]
fn the_reference_of_the_command_line_is_that_of_the_code() {
    check_page(CLI_PAGE, &commands());
}

#[test]
fn the_reference_of_an_operators_flags_is_that_of_the_code() {
    check_page(FLAGS_PAGE, &flags());
}

#[test]
fn the_exit_codes_of_the_reference_are_those_of_the_code() {
    let page = std::fs::read_to_string(path_of(CLI_PAGE)).unwrap();
    let (_, after) = page.split_once("| exit code |").unwrap();
    let rows = after
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let named: Vec<u8> = cells
        .flat_map(|cell| cell.split(','))
        .map(|code| code.trim().parse().unwrap())
        .collect();
    let codes = [
        Ending::Done.code(),
        Failure::new("").code(),
        Failure::usage("").code(),
        Ending::NeverSynced.code(),
        Ending::Interrupted.code(),
        Ending::Terminated.code(),
    ];
    assert_eq!(named, codes);
}

#[test]
fn an_item_says_what_the_parser_knows() {
    let mut command = Command::new("it")
        .arg(clap::arg!(-o --output <FORMAT> "Format of *it*").value_parser(["json", "wide"]))
        .arg(clap::arg!(--name <NAME> "Names; one each").action(ArgAction::Append))
        .arg(clap::arg!(--secret "Hidden").hide(true))
        .arg(clap::arg!(<TYPE> "Type"))
        .mut_arg("output", |arg| arg.default_value("wide").required(false))
        .mut_arg("name", |arg| arg.required(true).conflicts_with("output"));
    command.build();
    let expected = [
        "- `<TYPE>`: Type.\n",
        "- `-o`, `--output <FORMAT>`: Format of \\*it\\*. Values: `json`, `wide`. Default: `wide`.\n",
        "- `--name <NAME>`, required: Names; one each. May be repeated. Not with `--output`.\n",
    ];
    assert_eq!(items(&command), expected);
}

#[test]
fn lines_are_wrapped_outside_of_code() {
    let text = format!("{} `a b` {}", "x".repeat(93), "y".repeat(8));
    let expected = format!("- {}\n  `a b` {}\n", "x".repeat(93), "y".repeat(8));
    assert_eq!(wrapped("- ", &text), expected);
}
