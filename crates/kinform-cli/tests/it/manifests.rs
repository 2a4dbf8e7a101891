//! `serve --load`: a file means what it means to `kubectl create -f`.
//!
//! ```text
//! kinform serve --load FILE -- kinform get .. (processes)
//! ```

use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt as _;

use crate::command::{kinform, outcome};

/// A folder of files, gone with the test.
struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn words<'a>(flags: &[&'a str], path: &'a Path, get: &[&'a str]) -> Vec<&'a str> {
    let this = env!("CARGO_BIN_EXE_kinform");
    let load = ["serve", "--load", path.to_str().unwrap()];
    [&load[..], flags, &["--", this, "get"], get].concat()
}

/// Loads, gets, and expects this output; returns stderr.
async fn check(flags: &[&str], path: &Path, get: &[&str], expected: &str) -> String {
    let (code, stdout, stderr) = outcome(kinform(None, &words(flags, path, get))).await;
    assert_eq!((code, stdout.as_str()), (0, expected), "{get:?}: {stderr}");
    stderr
}

const MENU: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
    metadata: {name: menus.example.com}\n\
    spec:\n  group: example.com\n  scope: Namespaced\n\
    \x20 names: {plural: menus, singular: menu, kind: MenuList, listKind: MenuListList}\n\
    \x20 versions:\n  - name: v1\n    served: true\n    storage: true\n\
    \x20   schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n";

#[tokio::test]
async fn modes_words_and_doubled_keys_are_read_as_kubectl_reads_them() {
    let files = Files::new(&[
        (
            "pod.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: lamp}\nspec:\n  containers: [{name: c, image: x}]\n\
             \x20 volumes:\n  - {name: a, secret: {secretName: s, defaultMode: 0400}}\n\
             \x20 - {name: b, configMap: {name: m, defaultMode: 0644, optional: yes}}\n",
        ),
        (
            "twice.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice}\ndata:\n  a: \"1\"\n  a: \"2\"\n",
        ),
    ]);
    let modes = "jsonpath={.spec.volumes[*]..defaultMode} {.spec.volumes[1].configMap.optional}";
    let get = ["pod", "lamp", "-o", modes];
    check(&[], &files.path("pod.yaml"), &get, "256 420 true").await;
    let get = ["cm", "twice", "-o", "jsonpath={.data.a}"];
    let stderr = check(&[], &files.path("twice.yaml"), &get, "2").await;
    let note = "twice.yaml: line 6: key \"a\" is there twice; the last one counts";
    assert!(stderr.contains(note), "{stderr}");
}

#[tokio::test]
async fn an_object_keeps_its_own_items_whatever_its_kind_ends_in() {
    let object = "---\napiVersion: example.com/v1\nkind: MenuList\nmetadata: {name: sunday}\n\
        items: [soup, bread]\n";
    let files = Files::new(&[("menu.yaml", &format!("{MENU}{object}"))]);
    let get = ["menus", "-o", "jsonpath={.items[*].items}"];
    check(&[], &files.path("menu.yaml"), &get, "[\"soup\",\"bread\"]").await;
    let get = ["menu", "sunday", "-o", "jsonpath={.kind} {.items[1]}"];
    check(&[], &files.path("menu.yaml"), &get, "MenuList bread").await;
}

#[tokio::test]
async fn a_bundle_loads_with_its_webhooks() {
    let conversion = "  conversion:\n    strategy: Webhook\n    webhook:\n\
        \x20     conversionReviewVersions: [v1]\n\
        \x20     clientConfig: {url: \"https://127.0.0.1:1/convert\"}\n";
    let crd = MENU
        .replace("MenuListList", "MenuList")
        .replace("kind: MenuList,", "kind: Menu,");
    let webhook = "---\napiVersion: admissionregistration.k8s.io/v1\n\
        kind: ValidatingWebhookConfiguration\nmetadata: {name: check}\nwebhooks:\n\
        - name: check.example.com\n  admissionReviewVersions: [v1]\n  sideEffects: None\n\
        \x20 clientConfig: {url: \"https://127.0.0.1:1/check\"}\n\
        \x20 rules: [{apiGroups: [example.com], apiVersions: [\"*\"], operations: [CREATE], resources: [menus]}]\n";
    let object =
        "---\napiVersion: example.com/v1\nkind: Menu\nmetadata: {name: red, namespace: hall}\n";
    let files = Files::new(&[(
        "bundle.yaml",
        &format!("{crd}{conversion}{webhook}{object}"),
    )]);
    let bundle = files.path("bundle.yaml");
    let get = ["menus", "-n", "hall", "-o", "name"];
    let stderr = check(&[], &bundle, &get, "menu.example.com/red\n").await;
    assert!(stderr.contains("loaded 3 objects"), "{stderr}");
    let strategy = "jsonpath={.spec.conversion.strategy}";
    let get = ["crd", "menus.example.com", "-o", strategy];
    check(&[], &bundle, &get, "Webhook").await;
    let get = [
        "validatingwebhookconfigurations",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ];
    check(&[], &bundle, &get, "check").await;
}

const ONE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n";
/// Lists the config maps of the namespace of files that name none.
const NAMES: [&str; 5] = [
    "cm",
    "-o",
    "jsonpath={.items[*].metadata.name}",
    "-n",
    "default",
];

#[tokio::test]
async fn folders_are_read_as_kubectl_reads_them() {
    let files = Files::new(&[
        ("a/one.yaml", ONE),
        ("a/kustomization.yaml", "resources: [one.yaml]\n"),
        ("b/deep/one.yml", ONE),
        (
            "c.yaml",
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
        ),
    ]);
    let stderr = check(&[], &files.path("a"), &NAMES, "one").await;
    assert!(stderr.contains("kustomization.yaml: skipped"), "{stderr}");
    check(&["-R"], &files.path("b"), &NAMES, "one").await;
    let stderr = check(&[], &files.path("c.yaml"), &NAMES, "").await;
    assert!(stderr.contains("c.yaml: skipped"), "{stderr}");
    let folder = files.path("b");
    let (code, _, stderr) = outcome(kinform(None, &words(&[], &folder, &NAMES))).await;
    assert_eq!(code, 1);
    assert!(
        stderr.contains("no manifest") && stderr.contains("hint: -R"),
        "{stderr}"
    );
}

#[tokio::test]
async fn stdin_is_read_and_a_pipe_without_an_end_does_not_keep_a_signal_out() {
    let mut command = kinform(None, &words(&[], Path::new("-"), &NAMES));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // In the encoding of another system's editor.
    let utf16: Vec<u8> = std::iter::once(0xfeff)
        .chain(ONE.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    stdin.write_all(&utf16).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "one");

    let mut command = kinform(None, &words(&[], Path::new("-"), &NAMES));
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let open = child.stdin.take().unwrap();
    let pid = Pid::from_raw(child.id().unwrap().try_into().unwrap());
    // The signal may come before there is a handler for it: then the process ends by it.
    let ended = loop {
        kill(pid, Signal::SIGTERM).unwrap();
        let wait = tokio::time::timeout(std::time::Duration::from_millis(200), child.wait());
        if let Ok(ended) = wait.await {
            break ended.unwrap();
        }
    };
    assert!(matches!(ended.code(), Some(143) | None), "{ended:?}");
    drop(open);

    let files = Files::new(&[]);
    let pipe = files.path("pipe.yaml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [pipe.as_path(), Path::new("/dev/zero")] {
        let (code, _, stderr) = outcome(kinform(None, &words(&[], path, &NAMES))).await;
        assert_eq!(code, 1);
        assert!(stderr.contains("not a regular file"), "{stderr}");
    }
}
