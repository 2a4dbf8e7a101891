//! `wait`: conditions as kubectl has them, expressions, and what ends a wait otherwise.
//!
//! ```text
//! kinform wait (a process) ⇄ embedded server, whose objects change meanwhile
//! ```

use kinform_apiserver::Server;
use serde_json::json;

use crate::command::{Kubeconfig, kinform, outcome};
use crate::made::{CONFIG_MAPS, config_map, make, patch, send};

async fn served() -> (Server, Kubeconfig) {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    (server, kubeconfig)
}

async fn wait(kubeconfig: &Kubeconfig, words: &[&str]) -> (i32, String, String) {
    let words = [&["wait"], words].concat();
    outcome(kinform(Some(&kubeconfig.path()), &words)).await
}

/// Runs a wait, and changes the server once its watch is open.
async fn while_waiting(
    server: &Server,
    kubeconfig: &Kubeconfig,
    words: &[&str],
    plural: &str,
    change: impl Future<Output = ()>,
) -> (i32, String, String) {
    let before = server.journal().open_watches(plural);
    let words = [&["wait"], words].concat();
    let child = kinform(Some(&kubeconfig.path()), &words)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while server.journal().open_watches(plural) == before {
        tokio::task::yield_now().await;
    }
    change.await;
    let output = child.wait_with_output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Runs a wait for the config map `late` and deletes that, until the first list had it: the deletion
/// may come before.
async fn after_deletion(
    server: &Server,
    kubeconfig: &Kubeconfig,
    words: &[&str],
    had_it: impl Fn(i32, &str, &str) -> bool,
) -> (i32, String, String) {
    loop {
        let deleted = async {
            send(server, "DELETE", &format!("{CONFIG_MAPS}/late"), &json!({})).await;
        };
        let (code, stdout, stderr) =
            while_waiting(server, kubeconfig, words, "configmaps", deleted).await;
        if had_it(code, &stdout, &stderr) {
            return (code, stdout, stderr);
        }
        config_map(server, "late", json!({})).await;
    }
}

#[tokio::test]
async fn a_condition_that_comes_ends_the_wait() {
    let (server, kubeconfig) = served().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    make(
        &server,
        deployments,
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}),
    )
    .await;
    let status = |value: &str| {
        json!({"status": {"observedGeneration": 1, "readyReplicas": 1, "replicas": 1, "conditions": [
            {"type": "Available", "status": value}]}})
    };
    let path = format!("{deployments}/web/status");
    let available = ["deploy/web", "--for=condition=Available"];
    let (code, stdout, stderr) = while_waiting(
        &server,
        &kubeconfig,
        &available,
        "deployments",
        patch(&server, &path, status("True")),
    )
    .await;
    assert_eq!(
        (code, stdout.as_str()),
        (0, "deployment.apps/web condition met\n"),
        "{stderr}"
    );
    for words in [
        &["deploy", "web", "--for=jsonpath={.status.readyReplicas}=1"][..],
        &[
            "deploy",
            "--all",
            "--for=jsonpath='{.status.readyReplicas}'",
        ],
        &[
            "deploy",
            "-l",
            "!x",
            "--where",
            "object.status.readyReplicas == 1",
        ],
        &["deploy/web", "--for=condition=available", "--timeout=0"],
    ] {
        let (code, stdout, stderr) = wait(&kubeconfig, words).await;
        assert_eq!(
            (code, stdout.as_str()),
            (0, "deployment.apps/web condition met\n"),
            "{words:?} {stderr}"
        );
    }
    let (_, name, _) = wait(&kubeconfig, &["deploy/web", "--for=create", "-o", "name"]).await;
    assert_eq!(name, "deployment.apps/web\n");
    let not = [
        "deploy/web",
        "--for=condition=Available=false",
        "--timeout=0",
    ];
    let (code, _, stderr) = wait(&kubeconfig, &not).await;
    assert_eq!(code, 1);
    assert!(
        stderr.starts_with("error: timed out waiting for the condition on deployments.apps/web\n"),
        "{stderr}"
    );
}

#[tokio::test]
async fn creation_and_deletion_are_waited_for() {
    let (server, kubeconfig) = served().await;
    let created = async {
        config_map(&server, "late", json!({})).await;
    };
    let words = ["cm/late", "--for=create"];
    let (code, stdout, stderr) =
        while_waiting(&server, &kubeconfig, &words, "configmaps", created).await;
    assert_eq!(
        (code, stdout.as_str()),
        (0, "configmap/late condition met\n"),
        "{stderr}"
    );
    let words = ["cm/late", "--for=delete"];
    let (code, stdout, stderr) = after_deletion(&server, &kubeconfig, &words, |_, stdout, _| {
        !stdout.is_empty()
    })
    .await;
    assert_eq!(
        (code, stdout.as_str()),
        (0, "configmap/late condition met\n"),
        "{stderr}"
    );
    let (code, stdout, _) = wait(&kubeconfig, &["cm/late", "--for=delete"]).await;
    assert_eq!((code, stdout.as_str()), (0, ""));
}

#[tokio::test]
async fn what_will_not_come_is_said_in_one_line() {
    let (server, kubeconfig) = served().await;
    let words = ["cm/late", "--where", "object.kind == 'Other'"];
    config_map(&server, "late", json!({})).await;
    let (code, _, stderr) = after_deletion(&server, &kubeconfig, &words, |_, _, stderr| {
        !stderr.contains("not found")
    })
    .await;
    assert_eq!(code, 1);
    assert!(
        stderr.contains("\"late\" was deleted while it was waited for\n  hint: "),
        "{stderr}"
    );
    for (words, code, expected) in [
        (
            &["cm/gone", "--for=condition=Ready"][..],
            1,
            "configmaps \"gone\" not found",
        ),
        (
            &["cm", "-l", "a=b", "--for=condition=Ready"],
            1,
            "no configmaps are selected",
        ),
        (
            &["cm/kube", "--for=create", "--timeout=100ms"],
            1,
            "timed out waiting for the condition on configmaps/kube",
        ),
        (&["cm", "--for=create"], 2, "no object is named"),
        (&["cm/a", "--all", "--for=create"], 2, "take no NAME"),
        (&["cm/a", "--for=30s"], 2, "this --for takes a condition"),
        (
            &["cm/a", "--where", "object.data ==", "--timeout=1s"],
            2,
            "Syntax error",
        ),
        (&["cm/a"], 2, "--for"),
    ] {
        let (got, stdout, stderr) = wait(&kubeconfig, words).await;
        assert_eq!((got, stdout.as_str()), (code, ""), "{words:?} {stderr}");
        assert!(stderr.contains(expected), "{words:?} {stderr}");
    }
    config_map(&server, "many", json!({"a": "x".repeat(20_000)})).await;
    let dear = "object.data.a.matches('(x+x+)+y') || object.data.a.split('').all(a, object.data.a.split('').all(b, a == b))";
    let (code, _, stderr) = wait(&kubeconfig, &["cm/many", "--where", dear]).await;
    assert_eq!(code, 1);
    assert!(
        stderr.starts_with("error: --where costs too much for default/many\n  hint: "),
        "{stderr}"
    );
}
