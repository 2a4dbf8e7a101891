//! Kubeconfigs: any file is read in bounds, and a sound one means what it says.
//!
//! ```text
//! bytes ─┬─ as they are ──▶ file ──▶ load_config ──▶ Config of a server that the file names │ Error, of one line
//!        └─ drawn ──▶ clusters, users, contexts ──▶ YAML ──▶ the server, user and namespace of the context
//! ```
//!
//! Credentials must not leave over plain HTTP to other hosts, and no error may quote them.
//! BOUND: a parser of YAML may use aliases; the heap of the run is limited.
//! Upstream: `client-go:tools/clientcmd`.

use std::cell::OnceCell;
use std::path::PathBuf;

use kinform::source::{ConfigOverrides, load_config};
use kube_client::Config;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::draw::Draw;
use crate::shape::Shape;

/// Pieces of kubeconfigs.
pub const WORDS: &[&[u8]] = &[
    b"apiVersion: v1\nkind: Config\n",
    b"clusters:\n",
    b"users:\n",
    b"contexts:\n",
    b"current-context: a\n",
    b"- name: a\n",
    b"  cluster:\n",
    b"    server: https://h:1\n",
    b"  user:\n",
    b"    token: hidden\n",
    b"  context: {cluster: a, user: a}\n",
    b"namespace: n\n",
    b"certificate-authority-data: aGk=\n",
    b"insecure-skip-tls-verify: true\n",
    b"proxy-url: http://p\n",
    b"tls-server-name: n\n",
    b"exec:\n",
    b"\n---\n",
    b"&a ",
    b"*a",
    b"<<: *a\n",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"http://",
    b"https://",
    b"[::1]",
    b"@",
    b"%",
    b"~",
    b"\t",
    b"{",
    b"}",
    b"[",
    b"]",
    b"|\n",
];

/// A credential that no error may quote.
const SECRET: &str = "hidden";

thread_local! {
    static HOME: OnceCell<(Runtime, PathBuf)> = const { OnceCell::new() };
}

/// Reads the bytes as a kubeconfig.
pub fn run(bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    shape.form(&String::from_utf8_lossy(bytes));
    match load(bytes) {
        Ok(config) => {
            let text = String::from_utf8_lossy(bytes);
            let host = config.cluster_url.host().expect("a host").to_owned();
            // As it is written, unless the file is in other letters or has escapes.
            let is_plain = bytes.is_ascii() && !text.contains(['\\', '\n', '%']);
            assert!(!is_plain || text.contains(&host), "{host}");
            shape.saw((config.cluster_url.scheme_str(), config.accept_invalid_certs));
            shape.saw((
                config.proxy_url.is_some(),
                config.default_namespace.len().min(8),
            ));
            keeps_secrets(&config);
        }
        Err(why) => {
            assert!(
                !why.contains('\n') && why.starts_with("kubeconfig"),
                "{why:?}"
            );
            shape.text(&why);
        }
    }
    drawn(&mut Draw::new(bytes), &mut shape);
    shape
}

/// Reads a file of these bytes; the error is its text, with its causes.
fn load(bytes: &[u8]) -> Result<Config, String> {
    HOME.with(|home| {
        let (runtime, path) = home.get_or_init(|| {
            let id = format!(
                "kinform-fuzz-{}-{:?}",
                std::process::id(),
                std::thread::current().id()
            );
            let path = std::env::temp_dir().join(id.replace(['(', ')'], "-"));
            (
                Builder::new_current_thread().build().expect("a runtime"),
                path,
            )
        });
        std::fs::write(path, bytes).expect("a file");
        let mut overrides = ConfigOverrides::default();
        overrides.kubeconfig = Some(path.clone());
        let loaded = runtime.block_on(load_config(&overrides));
        let _ = std::fs::remove_file(path);
        loaded.map_err(|error| error.to_string().replace(&*path.to_string_lossy(), "F"))
    })
}

fn keeps_secrets(config: &Config) {
    let is_clear = config.cluster_url.scheme_str() == Some("http");
    let host = config.cluster_url.host().unwrap_or_default();
    let is_local = host == "localhost" || host.starts_with("127.") || host.starts_with('[');
    if is_clear && !is_local {
        let user = &config.auth_info;
        let is_bare = user.token.is_none() && user.token_file.is_none() && user.password.is_none();
        assert!(
            is_bare && user.exec.is_none(),
            "credentials for {}",
            config.cluster_url
        );
    }
}

fn drawn(draw: &mut Draw<'_>, shape: &mut Shape) {
    const NAMES: [&str; 4] = ["a", "b", "", "c d"];
    let servers = [
        "https://h.example:6443",
        "http://127.0.0.1:8080",
        "https://[::1]:1/p",
        "http://h.example",
        "h:80",
    ];
    let mut list = |part: &str, made: &mut dyn FnMut(&mut Draw<'_>) -> Value| -> Vec<Value> {
        let length = draw.below(4);
        (0..length)
            .map(|_| {
                let name = draw.pick(&NAMES);
                json!({"name": name, part: made(draw)})
            })
            .collect()
    };
    let clusters = list(
        "cluster",
        &mut |draw| json!({"server": draw.pick(&servers)}),
    );
    let users = list("user", &mut |draw| match draw.below(3) {
        0 => json!({}),
        1 => json!({"token": SECRET}),
        _ => json!({"username": "u", "password": SECRET}),
    });
    let contexts = list("context", &mut |draw| {
        let namespace = draw.pick(&["", "ns", "a-b"]);
        json!({"cluster": draw.pick(&NAMES), "user": draw.pick(&NAMES), "namespace": namespace})
    });
    let current = draw.pick(&NAMES);
    let document = json!({"apiVersion": "v1", "kind": "Config", "clusters": clusters, "users": users,
        "contexts": contexts, "current-context": current, "preferences": {}});
    // In both notations it is the same file.
    let text = match draw.below(2) {
        0 => document.to_string(),
        _ => serde_yaml_ng::to_string(&document).expect("YAML"),
    };
    let loaded = load(text.as_bytes());
    match (expected(&document), &loaded) {
        (Some((server, namespace)), Ok(config)) => {
            let server = if server.contains("://") {
                server
            } else {
                format!("http://{server}")
            };
            let url = config.cluster_url.to_string();
            assert_eq!(
                url.trim_end_matches('/'),
                server.trim_end_matches('/'),
                "{text}"
            );
            assert_eq!(config.default_namespace, namespace, "{text}");
            keeps_secrets(config);
            shape.saw((url, namespace));
        }
        (None, Err(why)) => {
            assert!(!why.contains(SECRET), "{why}");
            shape.text(why);
        }
        (expected, loaded) => panic!("{expected:?}, but {loaded:?} of {text}"),
    }
}

/// The server and the namespace that a document selects.
fn expected(document: &Value) -> Option<(String, String)> {
    // Of one name, the first counts.
    let find = |list: &str, part: &str, name: &str| {
        let entries = document[list].as_array().into_iter().flatten();
        let mut named = entries.filter(|entry| entry["name"] == name);
        named.next().map(|entry| entry[part].clone())
    };
    let current = document["current-context"]
        .as_str()
        .filter(|it| !it.is_empty());
    let context = match current {
        Some(name) => find("contexts", "context", name)?,
        None => json!({}),
    };
    let cluster = find(
        "clusters",
        "cluster",
        context["cluster"].as_str().unwrap_or_default(),
    )?;
    let namespace = context["namespace"]
        .as_str()
        .filter(|it| !it.is_empty())
        .unwrap_or("default");
    Some((cluster["server"].as_str()?.to_owned(), namespace.to_owned()))
}
