//! `get`: words and outputs as kubectl has them, and the rights that it needs.
//!
//! ```text
//! kinform get (a process) ⇄ embedded server
//! ```

use kinform_apiserver::{Seed, Server, User};

use crate::command::{Kubeconfig, kinform, outcome};

async fn seeded() -> (Server, Kubeconfig) {
    let server = Server::builder().start().await.unwrap();
    server.seed(Seed {
        seed: 1,
        nodes: 2,
        deployments: 1,
        pods: 2,
    });
    let kubeconfig = Kubeconfig::of(&server);
    (server, kubeconfig)
}

async fn get(kubeconfig: &Kubeconfig, words: &[&str]) -> (i32, String, String) {
    outcome(kinform(
        Some(&kubeconfig.path()),
        &[&["get"], words].concat(),
    ))
    .await
}

#[tokio::test]
async fn several_types_and_names_are_printed_together() {
    let (_server, kubeconfig) = seeded().await;
    let (code, names, stderr) = get(&kubeconfig, &["no,ns", "-o", "name"]).await;
    assert_eq!(code, 0, "{stderr}");
    let nodes: Vec<&str> = names
        .lines()
        .filter(|line| line.starts_with("node/"))
        .collect();
    assert_eq!(nodes.len(), 2, "{names}");
    assert!(names.contains("namespace/default\n"), "{names}");

    let (_, table, _) = get(&kubeconfig, &["no,ns"]).await;
    let (first, second) = table.split_once("\n\n").unwrap();
    assert!(
        first.contains("\nnode/") && second.contains("\nnamespace/default "),
        "{table}"
    );

    let words = [nodes[0], "ns/default", "-o", "jsonpath={.items[*].kind}"];
    let (code, kinds, stderr) = get(&kubeconfig, &words).await;
    assert_eq!((code, kinds.as_str()), (0, "Node Namespace"), "{stderr}");

    let words = ["ns", "default", "gone", "kube-system", "-o", "name"];
    let (code, found, stderr) = get(&kubeconfig, &words).await;
    assert_eq!(
        (code, found.as_str()),
        (1, "namespace/default\nnamespace/kube-system\n")
    );
    assert!(stderr.contains("namespaces \"gone\" not found"), "{stderr}");
    for (words, expected) in [
        (&["ns", "a/b"][..], 2),
        (&["ns/a", "no"], 2),
        (&["ns,"], 2),
        (&["ns", "a%2fb"], 2),
        (&["ns", ".."], 2),
        (&["ns", "default", "--by", "namespace=x"], 2),
        (&["no", "-o", "jsonpath={.items[9]}"], 1),
        (&["ns", "a b?c"], 1),
    ] {
        let (code, stdout, stderr) = get(&kubeconfig, words).await;
        assert_eq!(
            (code, stdout.as_str()),
            (expected, ""),
            "{words:?}: {stderr}"
        );
    }
}

#[tokio::test]
async fn outputs_of_the_users_own_are_kubectls() {
    let (_server, kubeconfig) = seeded().await;
    let columns = "custom-columns=NAME:.metadata.name,PHASE:.status.phase,NONE:.spec.nope";
    let (code, table, stderr) = get(&kubeconfig, &["ns", "default", "-o", columns]).await;
    let expected = "NAME      PHASE    NONE\ndefault   Active   <none>\n";
    assert_eq!((code, table.as_str()), (0, expected), "{stderr}");
    let template = "jsonpath={range .items[*]}{.kind}={.metadata.name}{\"\\n\"}{end}";
    let (code, lines, stderr) = get(&kubeconfig, &["nodes", "-o", template]).await;
    assert_eq!((code, lines.lines().count()), (0, 2), "{stderr}");
    assert!(
        lines.lines().all(|line| line.starts_with("Node=")),
        "{lines}"
    );
    let (code, _, stderr) = get(&kubeconfig, &["nodes", "-o", "jsonpath={.a"]).await;
    assert_eq!(code, 2);
    assert!(stderr.contains("unclosed action"), "{stderr}");
    // Managed fields are left out of a named object, too.
    let (_, whole, _) = get(&kubeconfig, &["ns", "default", "-o", "yaml"]).await;
    assert!(
        whole.contains("name: default") && !whole.contains("managedFields"),
        "{whole}"
    );
}

#[tokio::test]
async fn one_name_needs_the_right_to_get_it_and_no_more() {
    let server = Server::builder()
        .rbac()
        .user("tok-gail", User::new("gail"))
        .start()
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    let rules = r#"[{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["ledger"],"verbs":["get"]}]"#;
    for (path, body) in [
        ("/api/v1/namespaces/default/configmaps", r#"{"metadata":{"name":"ledger"}}"#.to_owned()),
        ("/api/v1/namespaces/default/configmaps", r#"{"metadata":{"name":"other"}}"#.to_owned()),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
            format!(r#"{{"metadata":{{"name":"one"}},"rules":{rules}}}"#),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            r#"{"metadata":{"name":"one"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"one"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"gail"}]}"#.to_owned(),
        ),
    ] {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(body.into())
            .unwrap();
        assert_eq!(server.service().call(request).await.status(), 201, "{path}");
    }
    let gail = ["-o", "name", "--token", "tok-gail"];
    let words = [&["cm", "ledger"], &gail[..]].concat();
    let (code, stdout, stderr) = get(&kubeconfig, &words).await;
    assert_eq!(
        (code, stdout.as_str()),
        (0, "configmap/ledger\n"),
        "{stderr}"
    );
    let words = [&["cm", "other"], &gail[..]].concat();
    let (code, _, stderr) = get(&kubeconfig, &words).await;
    assert!(code == 1 && stderr.contains("forbidden"), "{stderr}");
    let words = [&["cm"], &gail[..]].concat();
    let (code, _, stderr) = get(&kubeconfig, &words).await;
    assert!(code == 1 && stderr.contains("forbidden"), "{stderr}");
}
