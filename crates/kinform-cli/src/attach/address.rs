//! The address of an inspector and its token.
//!
//! ```text
//! http://127.0.0.1:4000/debug/kinform/#token=..  │ 127.0.0.1:4000 │ FILE with an address ─▶ Address
//! no flag ─▶ $XDG_RUNTIME_DIR or the temporary folder ─▶ the only file of a program that runs
//! ```
//!
//! INVARIANT: the host is loopback: an inspector listens nowhere else, and a token may be the one of an
//! account. The variable's token goes to no address that was found without a flag.
//!
//! BOUND: 4 KiB of a file, 10,000 entries of the folder, ten addresses in a message.
//!
//! Upstream counterpart: none.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use http::uri::{Authority, Uri};
use nix::sys::signal::kill;
use nix::unistd::{Pid, geteuid};
use percent_encoding::percent_decode_str;

use crate::exit::Failure;

const FILE_BYTES: u64 = 4 << 10;
const ENTRIES: usize = 10_000;
const NAMED: usize = 10;
const FILE_HINT: &str = "attach to the address that the program printed, or to the file that it wrote \
                         without a terminal: kinform-inspector-PID-N.url";

/// An address that can be asked.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Host and port.
    pub(super) place: String,
    pub(super) token: Token,
}

/// A token and where it comes from.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Token {
    Missing,
    /// Of the address.
    Address(String),
    /// Of the variable.
    Variable(String),
    /// Of the file.
    File(String, PathBuf),
}

impl Token {
    /// The token itself.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Missing => None,
            Self::Address(token) | Self::Variable(token) | Self::File(token, _) => Some(token),
        }
    }
}

/// Reads the value of `--attach`. `variable` is the token of the environment.
pub(super) fn read(text: &str, variable: Option<String>) -> Result<Address, Failure> {
    let text = text.trim();
    if is_address(text) {
        return Ok(complete(url(text)?, variable));
    }
    let path = Path::new(text);
    match read_file(path) {
        Ok(found) => Ok(complete(of_file(&found, path)?, variable)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(usage(&format!("{text:?} is neither an address nor a file")))
        }
        Err(error) => Err(unread(path, &error)),
    }
}

/// The address with the variable's token, if it has none of its own.
fn complete(mut address: Address, variable: Option<String>) -> Address {
    let variable = variable.map(|token| token.trim().to_owned());
    if let (Token::Missing, Some(token)) = (&address.token, variable.filter(|it| is_token(it))) {
        address.token = Token::Variable(token);
    }
    address
}

/// The only program of this user that runs and wrote its address into a file.
pub(super) fn find() -> Result<Address, Failure> {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = folder.filter(|folder| folder.is_dir());
    find_in(&folder.unwrap_or_else(std::env::temp_dir))
}

fn find_in(folder: &Path) -> Result<Address, Failure> {
    let hint = "start the program with its inspector and attach to the address that it prints, or to \
                the file that it writes without a terminal: --attach URL|FILE";
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.take(ENTRIES).flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| is_of_a_running_program(path)).collect();
    paths.sort();
    match &paths[..] {
        [] => Err(Failure::new("no program to attach to").with_hint(hint)),
        [path] => of_file(
            &read_file(path).map_err(|error| unread(path, &error))?,
            path,
        ),
        more => {
            let names = more
                .iter()
                .take(NAMED)
                .map(|path| path.display().to_string());
            let names: Vec<String> = names.collect();
            Err(
                Failure::new(format!("{} programs have an inspector", more.len()))
                    .with_hint(format!("--attach one of {}", names.join(", "))),
            )
        }
    }
}

/// Returns whether a file is an address that a running program of this user wrote for itself.
fn is_of_a_running_program(path: &Path) -> bool {
    let process = || {
        let name = path.file_name()?.to_str()?;
        let rest = name
            .strip_prefix("kinform-inspector-")?
            .strip_suffix(".url")?;
        rest.split_once('-')?.0.parse::<i32>().ok()
    };
    let is_ours =
        |of: Metadata| of.is_file() && of.uid() == geteuid().as_raw() && of.mode() & 0o077 == 0;
    process().is_some_and(|id| id > 0 && kill(Pid::from_raw(id), None).is_ok())
        && std::fs::symlink_metadata(path).is_ok_and(is_ours)
}

fn read_file(path: &Path) -> std::io::Result<String> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    file.take(FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn of_file(text: &str, path: &Path) -> Result<Address, Failure> {
    let wrong = || {
        Failure::new(format!("{}: no address of an inspector", path.display())).with_hint(FILE_HINT)
    };
    let line = text.lines().next().unwrap_or_default().trim();
    if !is_address(line) {
        return Err(wrong());
    }
    let mut address = url(line).map_err(|_| wrong())?;
    if let Token::Address(token) = address.token {
        address.token = Token::File(token, path.to_owned());
    }
    Ok(address)
}

fn unread(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display())).with_hint(FILE_HINT)
}

/// Returns whether a text is meant as an address: it has a scheme, or begins with `HOST:PORT`.
fn is_address(text: &str) -> bool {
    let end = text.find(['/', '#', '?']).unwrap_or(text.len());
    let port = text[..end].rsplit_once(':').map(|(_, port)| port);
    text.contains("://")
        || port.is_some_and(|port| !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit()))
}

fn url(text: &str) -> Result<Address, Failure> {
    let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
    let whole = match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    };
    let wrong = || usage(&format!("{address:?} is no address of an inspector"));
    let uri: Uri = whole.parse().map_err(|_| wrong())?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(usage("an inspector speaks HTTP on loopback, not HTTPS"));
        }
        _ => return Err(wrong()),
    }
    let authority = uri.authority().ok_or_else(wrong)?;
    let port = authority.port_u16();
    // A port that is no number of a port counts as none there.
    if authority.as_str().contains('@')
        || (port.is_none() && authority.as_str() != authority.host())
    {
        return Err(wrong());
    }
    if !is_loopback(authority) {
        return Err(usage(&format!(
            "{} is not on loopback, where inspectors listen",
            authority.host()
        )));
    }
    let token = token_of(fragment);
    Ok(Address {
        place: format!("{}:{}", authority.host(), port.unwrap_or(80)),
        token: token.map_or(Token::Missing, Token::Address),
    })
}

fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// The token of a fragment, as the page reads it.
fn token_of(fragment: &str) -> Option<String> {
    let value = fragment
        .split('&')
        .find_map(|part| part.strip_prefix("token="))?;
    let token = percent_decode_str(value).decode_utf8().ok()?.into_owned();
    Some(token).filter(|token| is_token(token))
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn usage(message: &str) -> Failure {
    Failure::usage(format!("--attach: {message}")).with_hint(
        "take the address that the program printed (http://127.0.0.1:PORT/debug/kinform/#token=..), \
         the file that it wrote, or 127.0.0.1:PORT with KINFORM_TOKEN; kubectl port-forward leads \
         to a program in a cluster",
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The address in short, or the exit code.
    fn told(text: &str, variable: Option<&str>) -> String {
        match read(text, variable.map(str::to_owned)) {
            Err(failure) => format!("exit {}", failure.code()),
            Ok(address) => {
                let token = match address.token {
                    Token::Missing => "-".to_owned(),
                    Token::Address(token) => format!("address {token}"),
                    Token::Variable(token) => format!("variable {token}"),
                    Token::File(token, _) => format!("file {token}"),
                };
                format!("{} {token}", address.place)
            }
        }
    }

    #[test]
    fn an_address_is_a_page_or_a_host_with_a_port_on_loopback() {
        for (text, expected) in [
            (
                "http://127.0.0.1:4000/debug/kinform/#token=a%2Bb",
                "127.0.0.1:4000 address a+b",
            ),
            (
                "http://localhost:8082/debug/kinform/#/pipeline",
                "localhost:8082 -",
            ),
            ("127.0.0.1:4000", "127.0.0.1:4000 -"),
            ("127.0.0.1:4000#token=t", "127.0.0.1:4000 address t"),
            ("[::1]:4000/debug/kinform/", "[::1]:4000 -"),
            ("http://localhost", "localhost:80 -"),
            ("http://127.0.0.1:4000#token=", "127.0.0.1:4000 -"),
            ("http://127.0.0.1:4000#token=a%0ab", "127.0.0.1:4000 -"),
            ("https://127.0.0.1:4000", "exit 2"),
            ("ftp://127.0.0.1:4000", "exit 2"),
            ("http://example.com:4000#token=t", "exit 2"),
            ("10.0.0.1:4000", "exit 2"),
            ("http://user@127.0.0.1:4000", "exit 2"),
            ("http://127.0.0.1:70000", "exit 2"),
            ("http://", "exit 2"),
            ("/no/such/file", "exit 2"),
            ("", "exit 2"),
        ] {
            assert_eq!(told(text, None), expected, "{text}");
        }
    }

    #[test]
    fn the_variables_token_is_the_second_choice() {
        assert_eq!(told("localhost:1", Some("v\n")), "localhost:1 variable v");
        assert_eq!(told("localhost:1", Some("")), "localhost:1 -");
        assert_eq!(told("localhost:1", Some("a b")), "localhost:1 -");
        assert_eq!(
            told("localhost:1#token=t", Some("v")),
            "localhost:1 address t"
        );
    }

    #[test]
    fn a_file_has_an_address_in_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.url");
        let text = path.to_str().unwrap();
        std::fs::write(&path, "http://127.0.0.1:9/debug/kinform/#token=t\n").unwrap();
        assert_eq!(told(text, Some("v")), "127.0.0.1:9 file t");
        for wrong in ["", "http://example.com:1#token=t", "./a.url"] {
            std::fs::write(&path, wrong).unwrap();
            assert_eq!(told(text, None), "exit 1", "{wrong:?}");
        }
        assert_eq!(told(folder.path().to_str().unwrap(), None), "exit 1");
    }

    #[test]
    fn a_program_is_found_by_a_file_that_it_alone_can_have_written() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            std::fs::write(&path, "http://127.0.0.1:9/debug/kinform/#token=t\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let found = || find_in(folder.path()).map(|address| address.place);
        let id = std::process::id();
        write(&format!("kinform-inspector-{id}-0.url"), 0o644);
        write("kinform-inspector-0-0.url", 0o600);
        write(&format!("other-{id}-0.url"), 0o600);
        assert!(found().unwrap_err().to_string().contains("no program"));
        write(&format!("kinform-inspector-{id}-1.url"), 0o600);
        assert_eq!(found().unwrap(), "127.0.0.1:9");
        write(&format!("kinform-inspector-{id}-2.url"), 0o600);
        let more = found().unwrap_err().to_string();
        assert!(
            more.contains("2 programs") && more.contains("-1.url, "),
            "{more}"
        );
    }
}
