//! `watch` in place on a terminal, `--where`, and events as a server names them.
//!
//! ```text
//! kinform watch (a process, on a pseudo-terminal or a pipe) ⇄ embedded server, whose objects change
//! ```

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use kinform_apiserver::Server;
use nix::pty::{Winsize, openpty};
use nix::sys::termios::tcgetattr;
use serde_json::{Value, json};

use crate::command::{Kubeconfig, Watch, kinform, outcome};
use crate::made::{CONFIG_MAPS, config_map, patch, send};

async fn served() -> (Server, Kubeconfig) {
    let server = Server::builder().start().await.unwrap();
    config_map(&server, "a", json!({"k": "1"})).await;
    let kubeconfig = Kubeconfig::of(&server);
    (server, kubeconfig)
}

/// Runs on a terminal of its own until `key` is pressed, once `shown` is on the screen. Returns what
/// was written, and the exit code.
async fn on_a_terminal(
    kubeconfig: &Kubeconfig,
    words: &[&str],
    shown: &str,
    change: impl Future<Output = ()>,
    key: &str,
) -> (String, i32) {
    let size = Winsize {
        ws_row: 24,
        ws_col: 120,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = openpty(&size, None).unwrap();
    let before = tcgetattr(&pty.slave).unwrap();
    let slave = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut command = kinform(Some(&kubeconfig.path()), words);
    command.env("TERM", "xterm").env_remove("RUST_LOG");
    let mut child = command
        .stdin(slave())
        .stdout(slave())
        .stderr(slave())
        .spawn()
        .unwrap();
    drop(command);
    let mut keys = File::from(pty.master.try_clone().unwrap());
    let (told, mut pieces) = tokio::sync::mpsc::unbounded_channel();
    let mut master = File::from(pty.master);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        // The end of the other side is an error to a terminal's reader.
        while let Ok(count @ 1..) = master.read(&mut bytes) {
            let _ = told.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
        }
    });
    let mut text = String::new();
    while !text.contains("default") {
        text.push_str(&pieces.recv().await.unwrap());
    }
    change.await;
    while !text.contains(shown) {
        text.push_str(&pieces.recv().await.unwrap());
    }
    keys.write_all(key.as_bytes()).unwrap();
    let code = child.wait().await.unwrap().code().unwrap();
    let after = tcgetattr(&pty.slave).unwrap();
    assert_eq!(
        format!("{before:?}"),
        format!("{after:?}"),
        "the terminal is left as it was"
    );
    drop(pty.slave);
    while let Some(piece) = pieces.recv().await {
        text.push_str(&piece);
    }
    (text, code)
}

#[tokio::test]
async fn a_terminal_has_a_row_an_object_and_is_left_as_it_was() {
    let (server, kubeconfig) = served().await;
    let path = format!("{CONFIG_MAPS}/a");
    for (key, expected) in [("q", 0), ("\u{3}", 130)] {
        patch(&server, &path, json!({"data": {"k": "1"}})).await;
        let change = async {
            while server.journal().open_watches("configmaps") == 0 {
                tokio::task::yield_now().await;
            }
            patch(&server, &path, json!({"data": {"k": "2"}})).await;
        };
        // A cell that changes is drawn alone: the word for the event is new on the screen.
        let (text, code) =
            on_a_terminal(&kubeconfig, &["watch", "cm"], "data.k", change, key).await;
        assert_eq!(code, expected, "{text:?}");
        let (screen, rest) = text.split_once("\u{1b}[?1049l").unwrap();
        assert!(screen.contains("\u{1b}[?1049h"), "{screen:?}");
        assert!(
            rest.contains("NAMESPACE   NAME") && rest.contains("UPDATE data.k 1 → 2"),
            "{rest:?}"
        );
        assert!(rest.contains(" relists, "), "{rest:?}");
    }
}

#[tokio::test]
async fn objects_come_into_a_selection_and_go_out_of_it() {
    let (server, kubeconfig) = served().await;
    let words = [
        "watch",
        "cm",
        "-o",
        "json",
        "--where",
        "object.data.k == '2'",
    ];
    let mut watch = Watch::start(kinform(Some(&kubeconfig.path()), &words));
    watch.next_event("synced").await;
    let path = format!("{CONFIG_MAPS}/a");
    for (value, event) in [("2", "add"), ("3", "delete"), ("2", "add")] {
        patch(&server, &path, json!({"data": {"k": value}})).await;
        let line = watch.next().await.unwrap();
        assert_eq!(
            (&line["event"], &line["name"]),
            (&json!(event), &json!("a"))
        );
    }
    patch(&server, &path, json!({"data": {"other": "1"}})).await;
    assert_eq!(watch.next().await.unwrap()["event"], "update");
    config_map(&server, "b", json!({"k": "9"})).await;
    send(&server, "DELETE", &path, &json!({})).await;
    let line = watch.next().await.unwrap();
    assert_eq!(
        (&line["event"], &line["name"]),
        (&json!("delete"), &json!("a"))
    );

    config_map(&server, "c", json!({"k": "2"})).await;
    let words = ["get", "cm", "-o", "name", "--where", "object.data.k == '2'"];
    let (code, names, stderr) = outcome(kinform(Some(&kubeconfig.path()), &words)).await;
    assert_eq!((code, names.as_str()), (0, "configmap/c\n"), "{stderr}");
    for verb in ["get", "watch"] {
        let words = [verb, "cm", "--where", "object.data.k =="];
        let (code, stdout, stderr) = outcome(kinform(Some(&kubeconfig.path()), &words)).await;
        assert_eq!(
            (code, stdout.as_str(), stderr.lines().count()),
            (2, "", 2),
            "{stderr}"
        );
        assert!(
            stderr.contains("\n  hint: the expression has one variable"),
            "{stderr}"
        );
    }
}

#[tokio::test]
async fn events_are_named_as_a_server_names_them() {
    let (server, kubeconfig) = served().await;
    let words = ["watch", "cm", "-o", "json", "--output-watch-events"];
    let mut watch = Watch::start(kinform(Some(&kubeconfig.path()), &words));
    let path = format!("{CONFIG_MAPS}/a");
    let first = watch.next().await.unwrap();
    assert_eq!(
        (
            &first["type"],
            &first["object"]["kind"],
            &first["object"]["data"]["k"]
        ),
        (&json!("ADDED"), &json!("ConfigMap"), &json!("1"))
    );
    patch(&server, &path, json!({"data": {"k": "2"}})).await;
    assert_eq!(watch.next().await.unwrap()["type"], "MODIFIED");
    send(&server, "DELETE", &path, &json!({})).await;
    let last: Value = watch.next().await.unwrap();
    assert_eq!(
        (&last["type"], &last["object"]["metadata"]["name"]),
        (&json!("DELETED"), &json!("a"))
    );
    config_map(&server, "b", json!({})).await;
    let words = ["watch", "cm", "--output-watch-events", "--for", "4s"];
    let (code, lines, stderr) = outcome(kinform(Some(&kubeconfig.path()), &words)).await;
    assert!(code == 0 && lines.contains(" ADDED "), "{lines} {stderr}");
}
