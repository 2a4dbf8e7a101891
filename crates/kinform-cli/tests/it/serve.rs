//! `serve`: the server as a tool of its own.

use std::os::unix::fs::PermissionsExt as _;

use crate::command::{kinform, outcome};

#[tokio::test]
async fn a_command_gets_a_kubeconfig_and_its_code_is_ours() {
    let words = [
        "serve",
        "--pods",
        "3",
        "--",
        "sh",
        "-c",
        "test -s \"$KUBECONFIG\" && exit 7",
    ];
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!((code, stdout.as_str()), (7, ""), "{stderr}");
}

#[tokio::test]
async fn kinform_reads_what_kinform_serves() {
    let this = env!("CARGO_BIN_EXE_kinform");
    for transport in [&[][..], &["--http"]] {
        let mut words = vec!["serve", "--pods", "3"];
        words.extend(transport);
        words.extend(["--", this, "get", "pods", "-A", "-o", "name"]);
        let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
        assert_eq!((code, stdout.lines().count()), (0, 3), "{stderr}");
    }
}

#[tokio::test]
async fn manifests_are_loaded_and_a_bad_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.yaml");
    std::fs::write(&good, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n").unwrap();
    let this = env!("CARGO_BIN_EXE_kinform");
    let words = [
        "serve",
        "--load",
        good.to_str().unwrap(),
        "--",
        this,
        "get",
        "cm",
        "-o",
        "name",
    ];
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!(
        (code, stdout.as_str()),
        (0, "configmap/a\nconfigmap/b\n"),
        "{stderr}"
    );

    let bad = folder.path().join("bad.yaml");
    std::fs::write(&bad, "apiVersion: v1\nkind: Gadget\nmetadata: {name: a}\n").unwrap();
    let (code, _, stderr) = outcome(kinform(
        None,
        &["serve", "--load", bad.to_str().unwrap(), "--", "true"],
    ))
    .await;
    assert_eq!(code, 1);
    assert!(
        stderr.contains("bad.yaml") && stderr.contains("Gadget"),
        "{stderr}"
    );
}

#[tokio::test]
async fn the_kubeconfig_is_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kc");
    let words = [
        "serve",
        "--write-kubeconfig",
        path.to_str().unwrap(),
        "--",
        "true",
    ];
    assert_eq!(outcome(kinform(None, &words)).await.0, 0);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn plain_http_is_for_loopback_only() {
    let (code, _, stderr) = outcome(kinform(
        None,
        &["serve", "--http", "--listen", "0.0.0.0:0", "--", "true"],
    ))
    .await;
    assert_eq!(code, 1);
    assert!(stderr.contains("loopback"), "{stderr}");
}
