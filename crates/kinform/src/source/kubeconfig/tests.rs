//! Odd kubeconfigs, as generators and people write them; kubectl reads or refuses each alike.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::files::Sources;
use super::select::{Selection, select};
use super::*;

/// A folder of a test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        // Tests of one process run side by side.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kinform-kubeconfig-{name}-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Reads the files of a list as `$KUBECONFIG`, relative to this folder.
    fn listed(&self, names: &[&str]) -> Result<Option<Selection>, Error> {
        let paths = names.iter().map(|name| match *name {
            "" => PathBuf::new(),
            name => self.0.join(name),
        });
        let list = std::env::join_paths(paths).unwrap();
        let environment = |name: &str| (name == "KUBECONFIG").then(|| OsString::from(&list));
        let document = Sources::find(None, &environment).read()?;
        select(&document, &ConfigOverrides::default())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const PLAIN: &str = r"
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: c, cluster: {server: 'https://10.0.0.1:6443'}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: a, context: {cluster: c, user: u, namespace: shop}}]
";

/// One kubeconfig whose cluster and user are these.
fn with(cluster: &str, user: &str) -> String {
    format!(
        "current-context: a\n\
         clusters: [{{name: c, cluster: {{{cluster}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n\
         contexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n"
    )
}

fn selected(text: &str, overrides: &ConfigOverrides) -> Result<Option<Selection>, Error> {
    let folder = Folder::new("one");
    let path = folder.file("kc", text);
    let document = Sources::find(Some(&path), &|_| None).read()?;
    select(&document, overrides)
}

fn refusal(text: &str, overrides: &ConfigOverrides) -> String {
    match selected(text, overrides) {
        Ok(_) => panic!("{text} is not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn files_that_are_missing_or_blank_are_passed_over_unless_they_are_named() {
    let folder = Folder::new("list");
    folder.file("plain", PLAIN);
    folder.file("blank", "");
    folder.file("null", "null\n---\n# nothing\n");
    folder.file(
        "no-context",
        PLAIN.replace("current-context: a", "current-context: ''"),
    );
    let other = PLAIN.replace("10.0.0.1", "10.0.0.2");
    folder.file(
        "other",
        other.replace("current-context: a", "current-context: b"),
    );
    for names in [
        &["plain"][..],
        &["gone", "plain"],
        &["plain", "gone"],
        &["blank", "plain"],
        &["null", "plain"],
        &["no-context", "plain"],
        &["", "plain", ""],
        &["plain", "other"],
    ] {
        let selection = folder.listed(names).unwrap().unwrap();
        assert_eq!(selection.address().host(), Some("10.0.0.1"), "{names:?}");
    }
    assert!(folder.listed(&["gone", "blank"]).unwrap().is_none());
    let gone = folder.0.join("gone");
    let named = Sources::find(Some(&gone), &|_| None).read().unwrap_err();
    assert!(named.to_string().contains("gone"), "{named}");
    assert!(named.is_config());
}

#[test]
fn files_that_may_never_end_are_refused() {
    let folder = Folder::new("odd");
    for path in [Path::new("/dev/zero"), folder.0.as_path()] {
        let error = Sources::find(Some(path), &|_| None).read().unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
    let large = folder.file(
        "large",
        vec![b' '; (files::MAX_KUBECONFIG_BYTES + 1) as usize],
    );
    let error = Sources::find(Some(&large), &|_| None).read().unwrap_err();
    assert!(error.to_string().contains("larger than"), "{error}");
}

#[test]
fn a_text_is_utf_8_or_begins_with_a_mark() {
    let utf16 = |of: fn(u16) -> [u8; 2]| {
        let units = std::iter::once(0xfeff).chain(PLAIN.encode_utf16());
        units.flat_map(of).collect::<Vec<u8>>()
    };
    let folder = Folder::new("text");
    folder.file("marked", [&b"\xef\xbb\xbf"[..], PLAIN.as_bytes()].concat());
    folder.file("little", utf16(u16::to_le_bytes));
    folder.file("big", utf16(u16::to_be_bytes));
    for name in ["marked", "little", "big"] {
        assert!(folder.listed(&[name]).unwrap().is_some(), "{name}");
    }
    folder.file("latin", b"current-context: \xe9\n");
    let error = folder.listed(&["latin"]).err().unwrap().to_string();
    assert!(error.ends_with("it is not UTF-8"), "{error}");
    folder.file("list", "- a\n");
    assert!(folder.listed(&["list"]).is_err());
    // A fault is named without the lines around it.
    folder.file("fault", "users: [{user: {token: hidden}}\nb: [");
    let error = folder.listed(&["fault"]).err().unwrap().to_string();
    assert!(!error.contains("hidden"), "{error}");
}

#[test]
fn a_value_of_another_type_is_not_shown() {
    let refused = |user: &str| {
        let text = with("server: 'https://a'", user);
        refusal(&text, &ConfigOverrides::default())
    };
    for user in ["token: 12345", "password: 12345", "exec: 12345"] {
        let error = refused(user);
        assert!(error.contains("it has another value where "), "{error}");
        assert!(!error.contains("12345"), "{error}");
    }
    let quoted = refused("exec: {interactiveMode: ', expected 12345'}");
    assert!(!quoted.contains("12345"), "{quoted}");
}

#[test]
fn what_is_empty_or_null_is_absent() {
    for text in [
        with(
            "server: 'https://a', certificate-authority: ''",
            "token: t, tokenFile: ''",
        ),
        with(
            "server: 'https://a', proxy-url: ''",
            "client-certificate-data: '', client-key-data: ''",
        ),
        with(
            "server: 'https://a', extensions: null",
            "exec: null, as-groups: null",
        ),
        PLAIN.replace("namespace: shop", "namespace: ''"),
        format!("{PLAIN}preferences: null\nextensions: null\n"),
        PLAIN.replace("user: u, ", ""),
        PLAIN.replace(
            "{name: u, user: {token: secret}}",
            "null, {name: u, user: null}",
        ),
    ] {
        let selection = selected(&text, &ConfigOverrides::default())
            .unwrap()
            .unwrap();
        let namespace = if text.contains("shop") {
            "shop"
        } else {
            "default"
        };
        assert_eq!(selection.namespace(), namespace, "{text}");
        let user = selection.user();
        assert!(
            user.token_file.is_none() && user.client_certificate_data.is_none(),
            "{text}"
        );
    }
}

#[test]
fn data_may_be_folded_and_paths_are_relative_to_their_file() {
    let folder = Folder::new("paths");
    folder.file(
        "kc",
        with(
            "server: 'https://a', certificate-authority-data: \"YWJj\\n  ZGVm\"",
            "client-certificate: crt, client-key: /key, tokenFile: ../token",
        ),
    );
    let selection = folder.listed(&["kc"]).unwrap().unwrap();
    let data = selection.cluster().certificate_authority_data.as_deref();
    assert_eq!(data, Some("YWJjZGVm"));
    let user = selection.user();
    let inside = |name: &str| folder.0.join(name).to_string_lossy().into_owned();
    assert_eq!(user.client_certificate, Some(inside("crt")));
    assert_eq!(user.client_key.as_deref(), Some("/key"));
    assert_eq!(user.token_file, Some(inside("../token")));
    for (command, expected) in [("aws", "aws".to_owned()), ("./plug", inside("./plug"))] {
        folder.file(
            "exec",
            with(
                "server: 'https://a'",
                &format!("exec: {{command: {command}}}"),
            ),
        );
        let selection = folder.listed(&["exec"]).unwrap().unwrap();
        let exec = selection.user().exec.as_ref().unwrap();
        assert_eq!(exec.command.as_ref(), Some(&expected));
    }
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    let none = ConfigOverrides::default();
    for (cluster, user, expected) in [
        (
            "insecure-skip-tls-verify: true, certificate-authority: a",
            "",
            "exclude each other",
        ),
        (
            "certificate-authority: a, certificate-authority-data: YQ==",
            "",
            "both set",
        ),
        ("", "client-certificate: a", "without its key"),
        (
            "",
            "client-certificate: a, client-certificate-data: YQ==, client-key: a",
            "both set",
        ),
        (
            "",
            "client-certificate: a, client-key: a, client-key-data: YQ==",
            "both set",
        ),
        ("", "username: a, password: b, token: c", "both set"),
    ] {
        let comma = if cluster.is_empty() { "" } else { ", " };
        let text = with(&format!("server: 'https://a'{comma}{cluster}"), user);
        let error = refusal(&text, &none);
        assert!(error.contains(expected), "{cluster} {user}: {error}");
    }
    let named = |overrides: ConfigOverrides| refusal(PLAIN, &overrides);
    let some = |name: &str| Some(name.to_owned());
    let context = ConfigOverrides {
        context: some("prod"),
        ..none.clone()
    };
    assert_eq!(named(context), "kubeconfig: there is no context \"prod\"");
    let cluster = ConfigOverrides {
        cluster: some("x"),
        ..none.clone()
    };
    assert_eq!(named(cluster), "kubeconfig: there is no cluster \"x\"");
    let user = ConfigOverrides {
        user: some("x"),
        ..none.clone()
    };
    assert_eq!(named(user), "kubeconfig: there is no user \"x\"");
    let token = ConfigOverrides {
        token: some("a\r\nb"),
        ..none
    };
    assert!(named(token).contains("no header can have"));
}

#[test]
fn an_address_has_a_scheme_and_shows_no_password() {
    let check = |server: &str| {
        selected(
            &with(&format!("server: '{server}'"), "token: t"),
            &ConfigOverrides::default(),
        )
    };
    for (server, expected) in [
        ("https://a", "https://a/"),
        ("https://a:6443/", "https://a:6443/"),
        ("https://a/k8s/c-1?x=y#z", "https://a/k8s/c-1"),
        ("https://[::1]:6443", "https://[::1]:6443/"),
        ("a:6443", "http://a:6443/"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("https://me:pa%40ss@a", "https://a/"),
    ] {
        let selection = check(server).unwrap().unwrap();
        assert_eq!(selection.address().to_string(), expected);
        // In clear text credentials are sent to this host only.
        let is_secure = expected.starts_with("https") || expected.contains("127.0.0.1");
        assert_eq!(selection.user().token.is_some(), is_secure, "{server}");
        assert!(selection.user().username.is_none(), "{server}");
    }
    let text = with("server: 'https://me:pa%40ss@a'", "");
    let selection = selected(&text, &ConfigOverrides::default()).unwrap();
    assert_eq!(selection.unwrap().user().username.as_deref(), Some("me"));
    for server in [
        "ftp://me:secret@a",
        "https://me:secret@",
        "https://me:secret@a b",
        "unix:///x",
    ] {
        let error = check(server).err().unwrap().to_string();
        assert!(error.starts_with("kubeconfig: the server \""), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn flags_win_over_the_file() {
    let text = with(
        "server: 'https://a', insecure-skip-tls-verify: true, tls-server-name: b",
        "token: t, client-certificate-data: YQ==, client-key-data: YQ==",
    );
    let overrides = ConfigOverrides {
        server: Some("https://c".to_owned()),
        certificate_authority: Some("/ca".into()),
        client_certificate: Some("/crt".into()),
        client_key: Some("/key".into()),
        impersonate: Some("jane".to_owned()),
        impersonate_groups: vec!["g".to_owned()],
        impersonate_uid: Some("7".to_owned()),
        proxy_url: Some("http://proxy".to_owned()),
        ..ConfigOverrides::default()
    };
    let selection = selected(&text, &overrides).unwrap().unwrap();
    let (cluster, user) = (selection.cluster(), selection.user());
    assert_eq!(selection.address().host(), Some("c"));
    assert_eq!(cluster.insecure_skip_tls_verify, Some(false));
    assert_eq!(cluster.tls_server_name, None);
    assert_eq!(cluster.certificate_authority.as_deref(), Some("/ca"));
    assert_eq!(cluster.proxy_url.as_deref(), Some("http://proxy"));
    assert_eq!(user.client_key.as_deref(), Some("/key"));
    assert!(user.client_key_data.is_none() && user.client_certificate_data.is_none());
    assert_eq!(user.impersonate.as_deref(), Some("jane"));
    // The flag to trust any certificate forgets the kubeconfig's authority.
    let text = with("server: 'https://a', certificate-authority-data: YQ==", "");
    let overrides = ConfigOverrides {
        insecure_skip_tls_verify: true,
        ..ConfigOverrides::default()
    };
    let selection = selected(&text, &overrides).unwrap().unwrap();
    assert!(selection.cluster().certificate_authority_data.is_none());
    // No kubeconfig is needed where the flags say all.
    let overrides = ConfigOverrides {
        server: Some("https://c".to_owned()),
        token: Some("t".to_owned()),
        ..ConfigOverrides::default()
    };
    assert!(selected("", &overrides).unwrap().is_some());
}

#[tokio::test]
async fn flags_win_over_the_service_account_of_a_pod() {
    let folder = Folder::new("pod");
    let authority = folder.file(
        "ca.crt",
        "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n",
    );
    let account = |overrides: &ConfigOverrides| {
        let mut account = Config::new("https://10.0.0.1:443".parse().unwrap());
        account.root_cert_file = Some(authority.clone());
        account.default_namespace = "shop".to_owned();
        account.auth_info.token_file = Some("/token".to_owned());
        let selection = select(&service_account(account), overrides)
            .unwrap()
            .unwrap();
        selection.config(&|_| None)
    };
    let none = ConfigOverrides::default();
    let config = account(&none).await.unwrap();
    assert_eq!(config.cluster_url.host(), Some("10.0.0.1"));
    assert_eq!(config.default_namespace, "shop");
    assert_eq!(config.root_cert_file.as_ref(), Some(&authority));
    assert!(config.root_cert.is_some_and(|all| !all.is_empty()));
    assert_eq!(config.auth_info.token_file.as_deref(), Some("/token"));
    let overrides = ConfigOverrides {
        token: Some("t".to_owned()),
        impersonate: Some("jane".to_owned()),
        insecure_skip_tls_verify: true,
        proxy_url: Some("http://proxy".to_owned()),
        ..none
    };
    let config = account(&overrides).await.unwrap();
    assert!(config.accept_invalid_certs && config.proxy_url.is_some());
    let user = config.auth_info;
    assert_eq!(user.impersonate.as_deref(), Some("jane"));
    assert!(user.token.is_some() && user.token_file.is_none());
}

#[tokio::test]
async fn the_environments_proxy_is_not_used_where_the_kubeconfig_names_one() {
    let environment = |name: &str| (name == "HTTPS_PROXY").then(|| OsString::from("http://env"));
    for (cluster, expected) in [
        ("server: 'https://a'", Some("http://env/")),
        ("server: 'https://127.0.0.1'", None),
        (
            "server: 'https://127.0.0.1', proxy-url: 'http://own'",
            Some("http://own/"),
        ),
    ] {
        let selection = selected(&with(cluster, ""), &ConfigOverrides::default());
        let config = selection
            .unwrap()
            .unwrap()
            .config(&environment)
            .await
            .unwrap();
        let proxy = config.proxy_url.map(|proxy| proxy.to_string());
        assert_eq!(proxy.as_deref(), expected, "{cluster}");
    }
}

#[test]
fn a_configuration_can_be_loaded_in_a_spawned_task() {
    fn can_move<T: Send>(future: T) -> T {
        future
    }
    drop(can_move(load_config(&ConfigOverrides::default())));
}
