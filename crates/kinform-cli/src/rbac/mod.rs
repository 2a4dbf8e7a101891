//! `kinform rbac -- COMMAND`: runs a command and prints the least roles that it needs.
//!
//! ```text
//! kubeconfig of the user → Proxy ◀── COMMAND (KUBECONFIG of its own)
//!                            └─▶ rights → Role | ClusterRole on stdout; the command's exit code
//! ```
//!
//! stdout is the role alone, or two roles if leases have one of their own: the command's own output
//! goes to stderr. Rights that every user has, as discovery, need no rule; rights that the user lacks
//! are named on stderr.
//!
//! * `asked.rs`: the right that a request needs, pure; `role.rs`: rights to a role, pure; `proxy.rs`:
//!   requests that are passed on.

mod asked;
mod proxy;
mod role;

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use kinform::source::{ClientOptions, client_for};
use kinform_apiserver::write_yaml;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use self::asked::{Asked, Target};
use self::proxy::{Clients, Proxy, Rights};
use self::role::Names;
use crate::args::checking::{DocumentOutput, RbacArgs};
use crate::cluster;
use crate::exit::{Ending, Failure};
use crate::files::TemporaryFile;
use crate::signals::Signals;
use crate::terminal::{Out, escaped_json};

/// Requests a second that are passed on: the command has a limit of its own.
const REQUESTS: u32 = 100_000;
/// BOUND: refused rights that are named.
const MAX_NAMED: usize = 20;

/// Runs the command and prints the role.
pub(crate) async fn run(args: RbacArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let (clients, namespace) = tokio::select! {
        biased;
        ending = signals.ending() => return Ok(ending),
        connected = connect(&args) => connected?,
    };
    let proxy = Proxy::listen(clients)
        .await
        .map_err(|error| Failure::new(format!("cannot listen on loopback: {error}")))?;
    let kubeconfig = TemporaryFile::new("kubeconfig");
    kubeconfig
        .write(&config(&proxy.url(), &namespace))
        .map_err(|error| Failure::new(format!("{}: {error}", kubeconfig.path().display())))?;
    let mut child = spawn(&args, kubeconfig.path())?;
    let code = tokio::select! {
        biased;
        code = ended(&mut child, &mut signals) => code?,
        () = proxy.run() => 1,
    };
    print(&args, &proxy.rights())?;
    Ok(Ending::Child(code))
}

async fn connect(args: &RbacArgs) -> Result<(Clients, String), Failure> {
    let config = cluster::config(&args.cluster).await?;
    let namespace = args.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let options = ClientOptions::from_env().with_rate_limit(REQUESTS, REQUESTS);
    let client = |options: &ClientOptions| {
        client_for(config.clone(), options)
            .map_err(|error| Failure::new(format!("{}: {error}", config.cluster_url)))
    };
    let clients = Clients {
        any: client(&options)?,
        upgrading: client(&options.clone().without_http2())?,
    };
    Ok((clients, namespace))
}

/// A kubeconfig that leads to the proxy. It has no credentials: the proxy has them.
fn config(url: &str, namespace: &str) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "recorded",
        "clusters": [{"name": "recorded", "cluster": {"server": url}}],
        "users": [{"name": "recorded", "user": {}}],
        "contexts": [{"name": "recorded", "context":
            {"cluster": "recorded", "user": "recorded", "namespace": namespace}}],
    });
    config.to_string()
}

fn spawn(args: &RbacArgs, kubeconfig: &Path) -> Result<Child, Failure> {
    let Some((program, words)) = args.command.split_first() else {
        return Err(Failure::usage("a COMMAND is needed"));
    };
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    Command::new(program)
        .args(words)
        .env("KUBECONFIG", kubeconfig)
        // In a pod, clients would go to the server by themselves.
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("KUBERNETES_SERVICE_PORT")
        .stdout(Stdio::from(stderr))
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Failure::new(format!("{}: {error}", program.to_string_lossy())))
}

/// The command's exit code. Signals are passed on: the command decides when it ends.
async fn ended(child: &mut Child, signals: &mut Signals) -> Result<i32, Failure> {
    loop {
        tokio::select! {
            biased;
            status = child.wait() => {
                let status = status?;
                let signal = std::os::unix::process::ExitStatusExt::signal(&status);
                return Ok(status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(1));
            }
            ending = signals.ending() => {
                use std::io::IsTerminal as _;
                let signal = match ending {
                    // A terminal's Ctrl-C reached the command, too.
                    Ending::Interrupted if std::io::stdin().is_terminal() => continue,
                    Ending::Interrupted => Signal::SIGINT,
                    _ => Signal::SIGTERM,
                };
                if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
                    // The command may just have ended.
                    let _ = kill(Pid::from_raw(id), signal);
                }
            }
        }
    }
}

fn print(args: &RbacArgs, rights: &Rights) -> Result<(), Failure> {
    let names = match args.resource_names {
        true => Names::Used,
        false => Names::Any,
    };
    let name = args.role.clone().unwrap_or_else(|| role_name(args));
    print_roles(role::roles(&name, &rights.used, names), args.output)?;
    if rights.used.is_empty() {
        crate::progress!("the command used no right that needs a rule; does it read KUBECONFIG?");
    }
    for refused in rights.refused.iter().take(MAX_NAMED) {
        crate::progress!(
            "refused to this user, and not in the role: {}",
            shown(refused)
        );
    }
    let more = rights.refused.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        crate::progress!("and {more} more refused rights");
    }
    Ok(())
}

/// Prints the roles: several as YAML documents, or as a List.
fn print_roles(roles: Vec<Value>, output: DocumentOutput) -> Result<(), Failure> {
    let mut out = Out::stdout();
    match output {
        DocumentOutput::Yaml => {
            let documents: Vec<String> = roles.iter().map(write_yaml).collect();
            out.text(&documents.join("---\n"))?;
        }
        DocumentOutput::Json => {
            let whole = match <[Value; 1]>::try_from(roles) {
                Ok([role]) => role,
                Err(roles) => json!({"apiVersion": "v1", "kind": "List", "items": roles}),
            };
            let text = serde_json::to_string_pretty(&whole).map_err(std::io::Error::from)?;
            out.text(&(escaped_json(&text) + "\n"))?;
        }
    }
    out.flush()?;
    Ok(())
}

/// The file name of the command, as the name of an object.
fn role_name(args: &RbacArgs) -> String {
    let path = args.command.first().map(PathBuf::from).unwrap_or_default();
    let file = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let letters = file.chars().map(|it| match it {
        'a'..='z' | '0'..='9' | '-' | '.' => it,
        _ => '-',
    });
    let name: String = letters.collect();
    let name = name.trim_matches(['-', '.']);
    match kinform_api::names::dns_subdomain_errors(name).is_empty() {
        true => name.to_owned(),
        false => "command".to_owned(),
    }
}

fn shown(asked: &Asked) -> String {
    match &asked.target {
        Target::Path(path) => format!("{} {path}", asked.verb),
        Target::Resource {
            namespace,
            group,
            resource,
            name,
        } => {
            let mut text = format!("{} {resource}", asked.verb);
            if !group.is_empty() {
                text.push_str(&format!(".{group}"));
            }
            if !name.is_empty() {
                text.push_str(&format!(" {name:?}"));
            }
            if !namespace.is_empty() {
                text.push_str(&format!(" in {namespace}"));
            }
            text
        }
    }
}
