//! Discovery asks for little, and a group that does not answer delays only its own words.
//!
//! ```text
//! kinform get (a process) ⇄ embedded server, which counts │ a server of single groups, one of them silent
//! ```

use std::sync::{Arc, Mutex};

use kinform_apiserver::Server;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::command::{Kubeconfig, kinform, outcome};
use crate::fake_server::read_head;

#[tokio::test]
async fn a_get_of_a_modern_server_is_four_requests_at_most() {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    server.journal().clear();
    let command = kinform(
        Some(&kubeconfig.path()),
        &["get", "deploy", "-A", "-o", "name"],
    );
    let (code, _, stderr) = outcome(command).await;
    assert_eq!(code, 0, "{stderr}");
    let records = server.journal().records();
    let asked: Vec<_> = records.iter().map(|record| &record.resource).collect();
    assert!(asked.len() <= 4, "{asked:?}");
}

/// The documents of a server that does not aggregate its discovery: the core group and two others,
/// of which the first never answers.
fn document(path: &str) -> Option<String> {
    let resources = |version: &str, plural: &str, kind: &str, short: &str| {
        format!(
            r#"{{"kind":"APIResourceList","groupVersion":"{version}","resources":[{{"name":"{plural}","singularName":"","namespaced":true,"kind":"{kind}","shortNames":["{short}"],"verbs":["get","list","watch"]}}]}}"#
        )
    };
    let group = |name: &str| {
        format!(r#"{{"name":"{name}","versions":[{{"groupVersion":"{name}/v1","version":"v1"}}]}}"#)
    };
    Some(match path {
        "/api/v1" => resources("v1", "configmaps", "ConfigMap", "cm"),
        "/apis" => format!(
            r#"{{"kind":"APIGroupList","groups":[{},{}]}}"#,
            group("slow.example.com"),
            group("quick.example.com")
        ),
        "/apis/quick.example.com/v1" => resources("quick.example.com/v1", "hares", "Hare", "hr"),
        "/apis/slow.example.com/v1" => return None,
        _ => r#"{"kind":"List","metadata":{"resourceVersion":"7"},"items":[]}"#.to_owned(),
    })
}

/// Answers until the connection ends; `None` for a request that stays without a reply.
async fn answer(stream: TcpStream, asked: Arc<Mutex<Vec<String>>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let head = read_head(&mut stream).await?;
        let target = head.split(' ').nth(1)?.to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        asked.lock().unwrap().push(path.to_owned());
        let (code, body) = match document(path) {
            _ if query.contains("watch=true") => (405, "{}".to_owned()),
            Some(body) => (200, body),
            None => std::future::pending().await,
        };
        let reply = format!(
            "HTTP/1.1 {code} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(reply.as_bytes()).await.ok()?;
    }
}

#[tokio::test]
async fn a_group_that_does_not_answer_delays_only_its_own_words() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, log.clone()));
        }
    });
    for (word, groups) in [
        ("configmaps", &[][..]),
        ("hares.quick.example.com", &["quick.example.com"]),
        ("hares.v1.quick.example.com", &["quick.example.com"]),
        // Another group before it may have the word, and is waited for a moment.
        ("hares", &["slow.example.com", "quick.example.com"]),
    ] {
        asked.lock().unwrap().clear();
        let command = kinform(None, &["get", word, "-o", "name", "--server", &url]);
        let (code, _, stderr) = outcome(command).await;
        assert_eq!(code, 0, "{word}: {stderr}");
        let asked = asked.lock().unwrap();
        let documents = asked.iter().filter_map(|path| path.strip_prefix("/apis/"));
        let mut documents: Vec<_> = documents
            .filter_map(|path| path.strip_suffix("/v1"))
            .collect();
        documents.sort_unstable();
        let mut groups = groups.to_vec();
        groups.sort_unstable();
        assert_eq!(documents, groups, "{word}");
    }
}
