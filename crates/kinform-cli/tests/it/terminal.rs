//! A terminal never receives a letter from a server that controls it: all commands, all outputs.
//!
//! ```text
//! kinform (a process, stdout and stderr on a pseudo-terminal) ⇄ a server whose every text is hostile
//! ```

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use nix::pty::openpty;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::command::kinform;
use crate::fake_server::read_head;

/// A title, a cleared screen, a C1 sequence, text from right to left, an overwritten line, and a
/// word by which the output is known to have come this far.
const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\u{200f}\r\u{8}hostile";

/// The part of the server that is hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Names, values and versions of objects.
    Objects,
    /// The message of a list that is refused with this code.
    Refusal(u16),
    /// The message of a watch's ERROR event.
    ErrorEvent,
    /// The message of discovery's refusal.
    Discovery,
    /// The names of the types that are served.
    Types,
    /// A page in place of an answer.
    Page,
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": HOSTILE, "message": HOSTILE})
}

fn object(name: &str, value: &str, version: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": format!("{name}{HOSTILE}"), "namespace": HOSTILE, "uid": HOSTILE,
            "resourceVersion": version, "labels": {HOSTILE: HOSTILE},
            "creationTimestamp": HOSTILE},
        "data": {HOSTILE: value, "lines": format!("a\n{HOSTILE}\n"), "k": HOSTILE}})
}

fn types(plural: &str, kind: &str) -> Value {
    json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        {"name": plural, "singularName": "", "namespaced": true, "kind": kind,
         "shortNames": ["cm"], "verbs": ["get", "list", "watch"]}]})
}

/// The reply to a request: its code and its documents; a watch stays open behind them.
fn reply(part: Part, path: &str, query: &str) -> (u16, Vec<Value>) {
    match (part, path) {
        (Part::Discovery, _) => (403, vec![status(403)]),
        (_, "/apis") => (200, vec![json!({"kind": "APIGroupList", "groups": []})]),
        (Part::Types, "/api/v1") => (
            200,
            vec![types("configmaps\u{1b}\u{9b}", "configmaps\u{1b}")],
        ),
        (_, "/api/v1") => (200, vec![types("configmaps", "ConfigMap")]),
        (_, "/api") => (404, vec![status(404)]),
        (Part::Refusal(code), _) => (code, vec![status(code)]),
        _ if query.contains("sendInitialEvents") => (400, vec![status(400)]),
        (Part::ErrorEvent, _) if query.contains("watch=") => {
            let event = json!({"type": "ERROR", "object": status(500)});
            (200, vec![event])
        }
        _ if query.contains("watch=") => {
            let event = |kind: &str, value: &str, version: &str| json!({"type": kind, "object": object("a", value, version)});
            let events = [
                event("MODIFIED", "new", "8"),
                json!({"type": HOSTILE, "object": {}}),
                event("DELETED", "new", "9"),
            ];
            (200, events.to_vec())
        }
        (_, path) if path.ends_with("/configmaps") => {
            let items = [object("a", "old", "5"), object("b", "old", "6")];
            let metadata = json!({"resourceVersion": "7"});
            let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata,
                "items": items});
            (200, vec![list])
        }
        _ => (200, vec![object("one", "old", "5")]),
    }
}

async fn answer(stream: TcpStream, part: Part) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let head = read_head(&mut stream).await?;
        let target = head.split(' ').nth(1)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (code, documents) = reply(part, path, query);
        let is_watch = code == 200 && query.contains("watch=");
        let mut documents: String = documents.iter().map(|it| format!("{it}\n")).collect();
        // Objects of another namespace than was asked for are not believed.
        if path.contains("/namespaces/default/") {
            let hostile = format!(r#""namespace":{}"#, json!(HOSTILE));
            documents = documents.replace(&hostile, r#""namespace":"default""#);
        }
        let (kind, body) = match part {
            Part::Page => ("text/html", format!("<html>{HOSTILE}</html>")),
            _ => ("application/json", documents),
        };
        let length = match is_watch {
            true => "connection: close".to_owned(),
            false => format!("content-length: {}", body.len()),
        };
        let reply = format!("HTTP/1.1 {code} x\r\ncontent-type: {kind}\r\n{length}\r\n\r\n{body}");
        stream.write_all(reply.as_bytes()).await.ok()?;
        if is_watch {
            std::future::pending().await
        }
    }
}

/// All that a command writes to its terminal, until it ends.
async fn on_a_terminal(words: &[&str]) -> String {
    let pty = openpty(None, None).unwrap();
    let mut command = kinform(None, words);
    command
        .stdout(Stdio::from(pty.slave.try_clone().unwrap()))
        .stderr(Stdio::from(pty.slave));
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut master = File::from(pty.master);
    let reading = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        // The end of the other side is an error to a terminal's reader.
        let _ = master.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let text = reading.await.unwrap();
    child.wait().await.unwrap();
    text
}

fn controls(text: &str) -> Vec<char> {
    let text = text.replace("\r\n", "\n");
    let is_ours = |letter: char| matches!(letter, '\n' | '\t');
    let is_bad = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200f}')
    };
    let found = text
        .chars()
        .filter(|letter| !is_ours(*letter) && is_bad(*letter));
    found.collect()
}

/// Begins to serve; returns the URL, and the task to abort.
async fn serve(part: Part) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, part));
        }
    });
    (url, serving)
}

async fn check(part: Part, words: &[&str]) {
    let (url, serving) = serve(part).await;
    let text = on_a_terminal(&[words, &["--server", &url]].concat()).await;
    serving.abort();
    let word = match part {
        Part::Types => "did you mean",
        _ => "hostile",
    };
    assert!(text.contains(word), "{part:?} {words:?}: {text:?}");
    assert_eq!(
        controls(&text),
        Vec::<char>::new(),
        "{part:?} {words:?}: {text:?}"
    );
}

#[tokio::test]
async fn a_servers_text_never_controls_a_terminal() {
    for output in [
        &[][..],
        &["-o", "wide"],
        &["-o", "name"],
        &["-o", "json"],
        &["-o", "yaml"],
        &["-o", "jsonpath={..metadata.name}{.metadata}{.items}"],
        &["-o", "custom-columns=A:.metadata.name,B:.data"],
    ] {
        check(
            Part::Objects,
            &[&["get", "configmaps", "-A"], output].concat(),
        )
        .await;
        check(
            Part::Objects,
            &[&["get", "configmap", "one"], output].concat(),
        )
        .await;
    }
    for output in ["wide", "json", "diff"] {
        let words = ["watch", "configmaps", "-A", "--for", "3s", "-o", output];
        check(Part::Objects, &words).await;
        check(Part::ErrorEvent, &words).await;
        check(Part::Refusal(500), &words).await;
    }
    for output in ["wide", "json"] {
        for words in [
            &["tree", "configmap/one"][..],
            &["story", "configmap/one", "--for", "3s"],
        ] {
            check(Part::Objects, &[words, &["-o", output]].concat()).await;
            check(Part::Refusal(403), words).await;
        }
        check(Part::Refusal(403), &["doctor", "-o", output]).await;
        check(Part::Refusal(403), &["diff", "configmap/one", "-o", output]).await;
    }
    for more in [&["--for=create"][..], &["--where=true", "-o", "yaml"]] {
        let words = ["wait", "configmaps", "-A", "--all"];
        check(Part::Objects, &[&words, more].concat()).await;
    }
    for output in ["wide", "json"] {
        check(
            Part::Objects,
            &["measure", "configmaps", "-A", "-o", output],
        )
        .await;
    }
    for verb in ["get", "watch", "measure"] {
        for part in [
            Part::Refusal(400),
            Part::Refusal(403),
            Part::Discovery,
            Part::Types,
        ] {
            // A watch waits for a right that is granted later.
            let end = match verb {
                "watch" => &["--for", "3s"][..],
                _ => &[],
            };
            check(part, &[&[verb, "configmaps"], end].concat()).await;
        }
    }
    check(Part::Refusal(404), &["get", "configmap", "one"]).await;
    check(Part::Refusal(500), &["get", "configmap", "one"]).await;
}

#[tokio::test]
async fn a_page_in_place_of_an_answer_never_controls_a_terminal() {
    let (url, _serving) = serve(Part::Page).await;
    for verb in ["get", "watch", "measure"] {
        let text = on_a_terminal(&[verb, "configmaps", "--server", &url]).await;
        assert!(text.contains("error: "), "{text:?}");
        assert_eq!(controls(&text), Vec::<char>::new(), "{text:?}");
    }
}
