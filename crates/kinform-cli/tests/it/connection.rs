//! Connecting as kubectl does: odd kubeconfigs, flags, certificates, proxies of the environment.
//!
//! ```text
//! kinform get (a process), with a kubeconfig made for the case ⇄ embedded server over TLS
//! ```

use std::path::{Path, PathBuf};

use kinform_apiserver::Server;
use serde_json::Value;
use tokio::process::Command;

use crate::command::{kinform, outcome};

/// A server over TLS and the parts of its kubeconfig.
struct Served {
    server: Server,
    folder: tempfile::TempDir,
    authority: String,
    token: String,
}

impl Served {
    async fn start() -> Self {
        let server = Server::builder().tls().start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base");
        server.write_kubeconfig(&path).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let base: Value = serde_saphyr::from_str(&text).unwrap();
        let part =
            |list: &str, of: &str, name: &str| base[list][0][of][name].as_str().unwrap().to_owned();
        Self {
            authority: part("clusters", "cluster", "certificate-authority-data"),
            token: part("users", "user", "token"),
            server,
            folder,
        }
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A kubeconfig with this cluster and user, in flow style, for the server's address.
    fn kubeconfig(&self, cluster: &str, user: &str) -> PathBuf {
        let url = self.server.url();
        self.file(
            "kubeconfig",
            &format!(
                "current-context: a\n\
                 clusters: [{{name: c, cluster: {{server: '{url}', {cluster}}}}}]\n\
                 users: [{{name: u, user: {{{user}}}}}]\n\
                 contexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n"
            ),
        )
    }

    fn authority(&self) -> String {
        format!("certificate-authority-data: {}", self.authority)
    }

    fn token(&self) -> String {
        format!("token: {}", self.token)
    }
}

fn get(kubeconfig: &Path, flags: &[&str]) -> Command {
    let mut words = vec!["get", "namespaces", "-o", "name"];
    words.extend(flags);
    kinform(Some(kubeconfig), &words)
}

async fn reads(command: Command, case: &str) {
    let (code, stdout, stderr) = outcome(command).await;
    assert_eq!(code, 0, "{case}: {stderr}");
    assert!(stdout.contains("namespace/default"), "{case}: {stdout}");
}

/// Fails with these words, without having waited for a server to come up.
async fn fails(command: Command, expected: &str) {
    let (code, stdout, stderr) = outcome(command).await;
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains(expected), "{expected}: {stderr}");
    assert!(!stderr.contains("no answer yet"), "{stderr}");
}

#[tokio::test]
async fn odd_kubeconfigs_are_read_as_kubectl_reads_them() {
    let served = Served::start().await;
    served.file("token", &format!("{}\n", served.token));
    served.file("blank", "");
    let folded: Vec<String> = served
        .authority
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    let folded = format!("certificate-authority-data: \"{}\"", folded.join("\n  "));
    for (cluster, user) in [
        (served.authority(), "tokenFile: token".to_owned()),
        (
            served.authority(),
            "token: stale, tokenFile: token".to_owned(),
        ),
        (
            served.authority(),
            format!("{}, client-certificate-data: ''", served.token()),
        ),
        (folded, served.token()),
        ("insecure-skip-tls-verify: true".to_owned(), served.token()),
        (
            format!("{}, tls-server-name: localhost", served.authority()),
            served.token(),
        ),
    ] {
        reads(get(&served.kubeconfig(&cluster, &user), &[]), &cluster).await;
    }
    let path = served.kubeconfig(&served.authority(), &served.token());
    let list = |paths: &[&Path]| std::env::join_paths(paths).unwrap();
    for paths in [
        &[Path::new("/gone"), &path][..],
        &[&served.folder.path().join("blank"), &path],
    ] {
        let mut command = get(&path, &[]);
        command.env("KUBECONFIG", list(paths));
        reads(command, "a list").await;
    }
    let mut command = get(&path, &[]);
    command.env("HTTPS_PROXY", "http://127.0.0.1:1");
    reads(command, "a proxy that is not for this host").await;
}

#[tokio::test]
async fn a_token_comes_before_a_plugin() {
    let served = Served::start().await;
    let plugin = "exec: {apiVersion: client.authentication.k8s.io/v1, command: /nonexistent, \
                  interactiveMode: Never}";
    let path = served.kubeconfig(&served.authority(), plugin);
    fails(get(&path, &[]), "exec plugin \"/nonexistent\"").await;
    reads(get(&path, &["--token", &served.token]), "a flag").await;
    let both = format!("{}, {plugin}", served.token());
    reads(
        get(&served.kubeconfig(&served.authority(), &both), &[]),
        "both",
    )
    .await;
}

#[tokio::test]
async fn flags_are_enough_without_a_kubeconfig() {
    let served = Served::start().await;
    let blank = served.file("blank", "");
    let authority = served.file("ca.crt", served.server.authority().unwrap());
    let (url, authority) = (
        served.server.url(),
        authority.to_string_lossy().into_owned(),
    );
    let common = ["--server", &url, "--token", &served.token];
    let with = |more: &[&str]| {
        let flags = [&common[..], more].concat();
        get(&blank, &flags)
    };
    reads(
        with(&["--certificate-authority", &authority]),
        "an authority",
    )
    .await;
    reads(with(&["--insecure-skip-tls-verify"]), "any certificate").await;
    reads(
        with(&[
            "--certificate-authority",
            &authority,
            "--request-timeout",
            "20s",
        ]),
        "a timeout",
    )
    .await;
    let name = [
        "--certificate-authority",
        &authority,
        "--tls-server-name",
        "other.example",
    ];
    fails(with(&name), "the server's certificate is not accepted").await;
    fails(with(&[]), "the server's certificate is not accepted").await;
    let both = [
        "--certificate-authority",
        &authority,
        "--insecure-skip-tls-verify",
    ];
    fails(with(&both), "exclude each other").await;
}

#[tokio::test]
async fn what_waiting_does_not_mend_is_said_at_once() {
    let served = Served::start().await;
    let other = Served::start().await;
    fails(
        get(&served.kubeconfig(&other.authority(), &served.token()), &[]),
        "the server's certificate is not accepted",
    )
    .await;
    let path = served.kubeconfig(&served.authority(), &served.token());
    let clear = served.server.url().replace("https://", "http://");
    fails(
        get(&path, &["--server", &clear]),
        "does not answer with HTTP",
    )
    .await;
    let plain = Server::builder().plain().start().await.unwrap();
    let secure = plain.url().replace("http://", "https://");
    fails(
        get(&path, &["--server", &secure]),
        "does not answer with TLS",
    )
    .await;
    fails(get(&path, &["--token", "a\nb"]), "no header can have").await;
    let odd = served.kubeconfig(&served.authority(), "token: \"a\\r\\nb\"");
    fails(get(&odd, &[]), "no header can have").await;
    let path = served.kubeconfig(&served.authority(), &served.token());
    fails(
        get(&path, &["--server", "ftp://a:secret@b"]),
        "another scheme",
    )
    .await;
}

/// The processes whose command line has this word.
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| {
            line.split(|byte| *byte == 0)
                .any(|argument| argument == word.as_bytes())
        })
        .count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_plugin_that_hangs_ends_with_the_command_at_a_signal() {
    use nix::sys::signal::{Signal, kill};
    let served = Served::start().await;
    for (at, verb) in ["get", "watch", "measure"].into_iter().enumerate() {
        // A duration that no other process sleeps.
        let word = format!("{}.{at}", 100_000 + std::process::id());
        let script = format!("sleep {word} & wait");
        let user = format!(
            "exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, \
             args: ['-c', '{script}'], interactiveMode: Never}}"
        );
        let path = served.kubeconfig(&served.authority(), &user);
        let mut child = kinform(Some(&path), &[verb, "pods"]).spawn().unwrap();
        let limit = std::time::Duration::from_secs(30);
        let until = async |count: usize| {
            while running(&word) != count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(limit, until(1)).await.unwrap();
        let id = i32::try_from(child.id().unwrap()).unwrap();
        kill(nix::unistd::Pid::from_raw(id), Signal::SIGTERM).unwrap();
        let ended = tokio::time::timeout(limit, child.wait()).await.unwrap();
        assert_eq!(ended.unwrap().code(), Some(143), "{verb}");
        tokio::time::timeout(limit, until(0)).await.unwrap();
    }
}
