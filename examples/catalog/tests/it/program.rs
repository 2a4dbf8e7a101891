//! The program as a process: its list, bad names, and a reader's cluster by its kubeconfig.

use std::process::{Output, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform_examples::ALL;
use kinform_testkit::TestServer;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// A generous limit of a wait: a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program with these words; it is killed when it is dropped.
fn program(words: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kinform-examples"));
    program
        .args(words)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    program
}

async fn ended(mut program: Command) -> (Option<i32>, String, String) {
    let output = tokio::time::timeout(PATIENCE, program.output()).await;
    let Output {
        status,
        stdout,
        stderr,
    } = output.expect("it ends by itself").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[tokio::test]
async fn without_a_name_it_lists_all_and_a_wrong_one_is_refused() {
    let (code, list, _) = ended(program(&[])).await;
    assert_eq!(code, Some(0));
    let names = list.lines().map(|line| line.split(' ').next().unwrap());
    assert!(names.eq(ALL.iter().map(|example| example.name)));
    for words in [&["nothing"][..], &["watch_pods", "more"], &["a", "b", "c"]] {
        let (code, _, told) = ended(program(words)).await;
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains("usage: kinform-examples NAME"), "{told}");
    }
    let (code, _, told) = ended(program(&["simulation", "--context", "kind"])).await;
    assert_eq!(code, Some(1));
    assert_eq!(told, "simulation runs without a cluster: no --context\n");
}

#[tokio::test]
async fn without_a_context_it_runs_on_a_server_of_its_own() {
    let (code, lines, told) = ended(program(&["index_and_lister"])).await;
    assert_eq!((code, told.as_str()), (Some(0), ""));
    assert!(lines.contains("node-1: default/web-0\n"), "{lines}");
}

#[tokio::test]
async fn on_the_cluster_of_a_context_it_runs_until_ctrl_c() {
    let api = TestServer::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    api.server().write_kubeconfig(&kubeconfig).unwrap();
    let mut program = program(&["shared_informer", "--context", "kinform"]);
    program.env("KUBECONFIG", kubeconfig).stdout(Stdio::piped());
    let mut running = program.spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();

    let map = serde_json::json!({"metadata": {"name": "theirs"}});
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    api.create(&map).await.unwrap();
    let talk = async {
        while lines.next_line().await.unwrap().unwrap() != "sizes: default/theirs has 0 entries" {}
        let id = running.id().unwrap().to_string();
        let asked = Command::new("kill").args(["-INT", &id]).status().await;
        assert!(asked.unwrap().success());
        let mut last = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            last = line;
        }
        assert_eq!(last, "1 list of 1 objects for both");
        assert_eq!(running.wait().await.unwrap().code(), Some(0));
    };
    tokio::time::timeout(PATIENCE, talk).await.unwrap();
}
