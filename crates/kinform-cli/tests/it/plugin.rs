//! `version`, `completion`, and the program as a plugin of kubectl.
//!
//! ```text
//! kinform | kubectl-kinform (a process) ⇄ embedded server
//! ```

use kinform_apiserver::Server;
use serde_json::Value;
use tokio::process::Command;

use crate::command::{Kubeconfig, kinform, outcome};

#[tokio::test]
async fn versions_are_printed_of_both_sides() {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    let run = async |words: &[&str]| outcome(kinform(Some(&kubeconfig.path()), words)).await;
    let client = concat!("Client Version: v", env!("CARGO_PKG_VERSION"), "\n");
    let (code, stdout, stderr) = run(&["version"]).await;
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stdout.starts_with(client) && stdout.contains("\nServer Version: v1."),
        "{stdout}"
    );
    let (_, alone, _) = run(&["version", "--client"]).await;
    assert_eq!(alone, client);
    let (_, json, _) = run(&["version", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["serverVersion"]["gitVersion"].is_string(), "{json}");
    let (_, yaml, _) = run(&["version", "-o", "yaml"]).await;
    let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(yaml, json);
    let (code, stdout, stderr) = outcome(kinform(
        None,
        &["version", "--server", "http://127.0.0.1:1"],
    ))
    .await;
    assert_eq!((code, stdout.as_str()), (1, client));
    assert!(stderr.contains("hint: `kinform doctor`"), "{stderr}");
}

#[tokio::test]
async fn each_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (code, script, _) = outcome(kinform(None, &["completion", shell])).await;
        assert!(code == 0 && script.contains("doctor"), "{shell}: {script}");
    }
    let (code, _, _) = outcome(kinform(None, &["completion", "tcl"])).await;
    assert_eq!(code, 2);
}

#[tokio::test]
async fn a_plugin_of_kubectl_says_so_in_its_help() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-kinform");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kinform"), &plugin).unwrap();
    let mut command = Command::new(&plugin);
    command.args(["get", "--help"]);
    let (code, help, _) = outcome(command).await;
    assert!(
        code == 0 && help.contains("Usage: kubectl kinform get"),
        "{help}"
    );
    let mut command = Command::new(&plugin);
    command.arg("--help");
    let (_, help, _) = outcome(command).await;
    assert!(help.contains("plugin of kubectl"), "{help}");
}
