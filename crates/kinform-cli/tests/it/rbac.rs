//! `rbac`: the printed role is enough for the command, and without any of its verbs it is not.
//!
//! ```text
//! kinform rbac -- COMMAND (processes) ⇄ embedded server with rights
//! ```

use kinform_apiserver::{Server, User};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use crate::command::{Kubeconfig, kinform, outcome};
use crate::fake_server::read_head;
use crate::made::{config_map, grant};

const TOKEN: &str = "tok-jane";

async fn served() -> (Server, Kubeconfig) {
    let server = Server::builder()
        .rbac()
        .user(TOKEN, User::new("jane"))
        .start()
        .await
        .unwrap();
    config_map(&server, "a", json!({"k": "1"})).await;
    let kubeconfig = Kubeconfig::of(&server);
    (server, kubeconfig)
}

/// The role of a command of this binary, as the administrator runs it.
async fn role(kubeconfig: &Kubeconfig, flags: &[&str], command: &[&str]) -> (i32, Value, String) {
    let binary = [env!("CARGO_BIN_EXE_kinform")];
    let words = [&["rbac", "-o", "json"], flags, &["--"], &binary, command].concat();
    let (code, stdout, stderr) = outcome(kinform(Some(&kubeconfig.path()), &words)).await;
    let role =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout} {stderr}"));
    (code, role, stderr)
}

/// Returns whether jane can run the command with this role alone, on a server of her own.
async fn is_enough(role: &Value, command: &[&str]) -> bool {
    let (server, kubeconfig) = served().await;
    grant(&server, "jane", role).await;
    let words = [command, &["--token", TOKEN]].concat();
    let (code, _, _) = outcome(kinform(Some(&kubeconfig.path()), &words)).await;
    code == 0
}

/// The role without one verb of one rule, each. The two verbs of a streaming list go together: the
/// command falls back to a list if it may not watch, and does not list if it may.
fn without_a_verb(role: &Value, is_streaming: bool) -> Vec<Value> {
    let mut roles = Vec::new();
    for (place, rule) in role["rules"].as_array().unwrap().iter().enumerate() {
        if is_streaming && rule["verbs"] == json!(["list", "watch"]) {
            let mut less = role.clone();
            less["rules"].as_array_mut().unwrap().remove(place);
            roles.push(less);
            continue;
        }
        for verb in 0..rule["verbs"].as_array().unwrap().len() {
            let mut less = role.clone();
            less["rules"][place]["verbs"]
                .as_array_mut()
                .unwrap()
                .remove(verb);
            // A rule without verbs would be refused.
            if less["rules"][place]["verbs"].as_array().unwrap().is_empty() {
                less["rules"].as_array_mut().unwrap().remove(place);
            }
            roles.push(less);
        }
    }
    roles
}

#[tokio::test]
async fn the_role_is_enough_and_no_verb_is_too_many() {
    let (_server, kubeconfig) = served().await;
    // Of types that have objects: an informer confirms by a list that there are none.
    for (command, kind, verbs) in [
        (&["get", "cm", "a", "-o", "name"][..], "Role", &["get"][..]),
        (&["get", "cm"], "Role", &["list", "watch"]),
        (&["get", "cm", "-A"], "ClusterRole", &["list", "watch"]),
        (
            &["get", "cm,clusterroles"],
            "ClusterRole",
            &["list", "watch", "list", "watch"],
        ),
        (
            &["wait", "cm/a", "--for=create"],
            "Role",
            &["list", "watch"],
        ),
        (
            &["watch", "ns", "--for", "4s"],
            "ClusterRole",
            &["list", "watch"],
        ),
        (&["doctor", "cm"], "Role", &["list", "watch"]),
        (&["version"], "ClusterRole", &[]),
    ] {
        let (code, role, stderr) = role(&kubeconfig, &[], command).await;
        assert_eq!(code, 0, "{command:?} {stderr}");
        assert_eq!(role["kind"], kind, "{role}");
        let rules = role["rules"].as_array().unwrap().iter();
        let found: Vec<_> = rules
            .flat_map(|rule| rule["verbs"].as_array().unwrap())
            .collect();
        assert_eq!(found, verbs, "{command:?} {role}");
        assert!(is_enough(&role, command).await, "{command:?} {role}");
        for less in without_a_verb(&role, command[0] != "doctor") {
            assert!(
                !is_enough(&less, command).await,
                "{command:?} needs no more than {less}"
            );
        }
    }
}

#[tokio::test]
async fn leases_of_a_namespace_are_a_role_beside_a_cluster_role() {
    let (_server, kubeconfig) = served().await;
    let binary = env!("CARGO_BIN_EXE_kinform");
    let script = format!("{binary} get cm -A && {binary} get leases -n default");
    let run = async |output: &str| {
        let words = [
            "rbac", "--role", "both", "-o", output, "--", "sh", "-c", &script,
        ];
        outcome(kinform(Some(&kubeconfig.path()), &words)).await.1
    };
    let list: Value = serde_json::from_str(&run("json").await).unwrap();
    let rule = |group: &str, resource: &str| json!([{"apiGroups": [group], "resources": [resource], "verbs": ["list", "watch"]}]);
    let version = "rbac.authorization.k8s.io/v1";
    let cluster = json!({"apiVersion": version, "kind": "ClusterRole",
        "metadata": {"name": "both"}, "rules": rule("", "configmaps")});
    let of_leases = json!({"apiVersion": version, "kind": "Role",
        "metadata": {"name": "both", "namespace": "default"},
        "rules": rule("coordination.k8s.io", "leases")});
    let expected = json!({"apiVersion": "v1", "kind": "List", "items": [cluster, of_leases]});
    assert_eq!(list, expected);
    let yaml = run("yaml").await;
    let documents: Vec<Value> = yaml
        .split("---\n")
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect();
    assert_eq!(json!(documents), list["items"]);
}

#[tokio::test]
async fn names_of_objects_narrow_a_role() {
    let (_server, kubeconfig) = served().await;
    let command = ["get", "cm", "a", "-o", "name"];
    let (_, role, _) = role(
        &kubeconfig,
        &["--resource-names", "--role", "reader"],
        &command,
    )
    .await;
    let expected = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "reader", "namespace": "default"}, "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["a"]}]});
    assert_eq!(role, expected);
    assert!(is_enough(&role, &command).await);
}

#[tokio::test]
async fn the_commands_code_and_output_are_passed_on() {
    let (_server, kubeconfig) = served().await;
    let run = async |words: &[&str]| {
        let words = [&["rbac"], words].concat();
        outcome(kinform(Some(&kubeconfig.path()), &words)).await
    };
    let (code, stdout, stderr) = run(&["--", "sh", "-c", "echo out; echo err >&2; exit 7"]).await;
    assert_eq!(code, 7);
    assert!(
        stdout.contains("kind: ClusterRole") && !stdout.contains("out"),
        "{stdout}"
    );
    assert!(
        stderr.contains("out\nerr\n") && stderr.contains("does it read KUBECONFIG?"),
        "{stderr}"
    );
    let (code, _, stderr) = run(&["--", "/nonexistent"]).await;
    assert_eq!(code, 1, "{stderr}");
    let (code, _, _) = run(&[]).await;
    assert_eq!(code, 2);
    // A right that the user lacks is named, and not in the role.
    let binary = env!("CARGO_BIN_EXE_kinform");
    let (code, stdout, stderr) =
        run(&["--token", TOKEN, "--", binary, "get", "secrets", "x"]).await;
    assert_eq!(code, 1);
    assert!(stdout.contains("rules: []"), "{stdout}");
    assert!(
        stderr.contains("not in the role: get secrets \"x\" in default"),
        "{stderr}"
    );
}

#[tokio::test]
async fn the_proxy_answers_nobody_without_its_path() {
    let (_server, kubeconfig) = served().await;
    let script = "url=$(sed 's/.*\"server\":\"\\([^\"]*\\)\".*/\\1/' $KUBECONFIG); stat -c %a $KUBECONFIG; \
                  exec 3<>/dev/tcp/$(echo $url | sed 's|http://\\([^:]*\\):\\([0-9]*\\)/.*|\\1/\\2|'); \
                  printf 'GET /api/v1/secrets HTTP/1.1\\r\\nhost: a\\r\\nconnection: close\\r\\n\\r\\n' >&3; head -1 <&3";
    let words = ["rbac", "--", "bash", "-c", script];
    let (code, _, stderr) = outcome(kinform(Some(&kubeconfig.path()), &words)).await;
    assert!(
        code == 0 && stderr.starts_with("600\nHTTP/1.1 404"),
        "{code} {stderr}"
    );
}

/// A server that switches protocols and then repeats what it hears.
async fn echoing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let head = read_head(&mut stream).await?.to_lowercase();
                assert!(head.contains("upgrade: echo"), "{head}");
                let reply = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n";
                stream.write_all(reply.as_bytes()).await.ok()?;
                let (mut from, mut to) = tokio::io::split(stream);
                tokio::io::copy(&mut from, &mut to).await.ok()
            });
        }
    });
    url
}

#[tokio::test]
async fn connections_that_switch_protocols_are_passed_on() {
    let url = echoing().await;
    let script = "url=$(sed 's/.*\"server\":\"\\([^\"]*\\)\".*/\\1/' $KUBECONFIG); at=${url#http://}; host=${at%%/*}; \
                  exec 3<>/dev/tcp/${host%%:*}/${host##*:}; \
                  printf 'GET /%s/api/v1/namespaces/a/pods/b/exec HTTP/1.1\\r\\nhost: a\\r\\nconnection: Upgrade\\r\\nupgrade: echo\\r\\n\\r\\n' ${at#*/} >&3; \
                  while read -r line <&3 && [ \"$line\" != $'\\r' ]; do echo \"$line\"; done; echo ping >&3; head -1 <&3";
    let words = ["rbac", "--server", &url, "--", "bash", "-c", script];
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert!(
        code == 0 && stderr.starts_with("HTTP/1.1 101") && stderr.ends_with("ping\n"),
        "{code} {stderr}"
    );
    assert!(
        stdout.contains("pods/exec") && stdout.contains("namespace: a"),
        "{stdout}"
    );
    // A WebSocket begins as a GET.
    assert!(stdout.contains("- create\n  - get\n"), "{stdout}");
}
