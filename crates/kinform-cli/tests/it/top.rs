//! `top` at an inspector: lines, the screen, and what goes wrong.
//!
//! ```text
//! kinform top (a process, on a pseudo-terminal or a pipe) ⇄ Inspector │ something else (in the test)
//! ```

use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::InformerFactory;
use kinform_operator::Inspector;
use kinform_testkit::TestServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::command::{kinform, outcome};
use crate::fake_server::read_head;
use crate::made::{CONFIG_MAPS, config_map, patch};
use crate::pseudo_terminal::Terminal;

/// A generous limit of a wait: a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program with an informer and an inspector.
struct Program {
    server: TestServer,
    factory: InformerFactory,
    inspector: Inspector,
}

impl Program {
    async fn start() -> Self {
        let server = TestServer::start().await.unwrap();
        config_map(server.server(), "a", json!({"k": "1"})).await;
        config_map(server.server(), "web", json!({"k": "1"})).await;
        let factory = InformerFactory::new(server.client());
        let _ = factory.informer::<ConfigMap>();
        factory.start().unwrap();
        factory.synced_within(PATIENCE).await.unwrap();
        let inspector = Inspector::builder().name("shop").quiet();
        let inspector = inspector.serve(&factory).await.unwrap();
        Self {
            server,
            factory,
            inspector,
        }
    }

    fn url(&self) -> String {
        self.inspector.url().to_owned()
    }

    fn token(&self) -> String {
        self.url().split_once("#token=").unwrap().1.to_owned()
    }

    async fn stop(self) {
        self.inspector.stop().await;
        self.factory.shutdown().await;
    }
}

fn top(words: &[&str]) -> Command {
    let mut command = kinform(None, &[&["top"], words].concat());
    command
        .env_remove("KINFORM_TOKEN")
        .env_remove("NO_COLOR")
        .env_remove("RUST_LOG");
    command
}

#[tokio::test]
async fn without_a_terminal_it_prints_lines_or_replies() {
    let program = Program::start().await;
    let url = program.url();
    let words = ["--attach", &url, "--for", "1500ms"];
    let (code, stdout, stderr) = outcome(top(&words)).await;
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!((1..=2).contains(&stdout.lines().count()), "{stdout}");
    for line in stdout.lines() {
        for part in [
            "  shop  1/1 synced  ",
            " objects  ",
            "  wire ",
            "problems 0 now",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
    for view in [
        "pipeline", "caches", "queues", "objects", "memory", "problems",
    ] {
        let words = [view, "--attach", &url, "--for", "500ms", "-o", "json"];
        let (code, stdout, stderr) = outcome(top(&words)).await;
        assert_eq!((code, stdout.lines().count()), (0, 1), "{view} {stderr}");
        let reply: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(
            (&reply["version"], &reply["program"]),
            (&json!("v1"), &json!("shop"))
        );
        assert!(!stdout.contains(&program.token()));
    }
    program.stop().await;
}

#[tokio::test]
async fn the_token_is_in_the_address_the_variable_or_a_file() {
    let program = Program::start().await;
    let (address, token) = (program.inspector.address().to_string(), program.token());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kinform-inspector-1-0.url");
    std::fs::write(&file, format!("{}\n", program.url())).unwrap();
    let file = file.to_str().unwrap();
    let page = format!("http://{address}/debug/kinform/");
    for (attach, variable, expected) in [
        (address.as_str(), Some(token.as_str()), Ok(())),
        (&page, Some(token.as_str()), Ok(())),
        (file, None, Ok(())),
        (file, Some("other"), Ok(())),
        (&page, None, Err("a token is needed")),
        (
            &address,
            Some("other"),
            Err("the token of KINFORM_TOKEN is not accepted"),
        ),
        (
            &format!("{page}#token=other"),
            Some(token.as_str()),
            Err("the token of the address is not accepted"),
        ),
    ] {
        let mut command = top(&["--attach", attach, "--for", "300ms"]);
        if let Some(token) = variable {
            command.env("KINFORM_TOKEN", token);
        }
        let (code, stdout, stderr) = outcome(command).await;
        match expected {
            Ok(()) => assert_eq!((code, stderr.as_str()), (0, ""), "{attach}"),
            Err(words) => {
                assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
                assert!(stderr.contains(words), "{stderr}");
                assert_eq!(stderr.lines().count(), 2, "a line and a hint: {stderr}");
            }
        }
        assert!(!stderr.contains(&token), "{stderr}");
    }
    // Without the flag: the file of a running program of this user, here of this test.
    let own = folder
        .path()
        .join(format!("kinform-inspector-{}-0.url", std::process::id()));
    std::fs::write(&own, program.url()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&own, private).unwrap();
    let mut command = top(&["--for", "300ms"]);
    command.env("XDG_RUNTIME_DIR", folder.path());
    let (code, stdout, stderr) = outcome(command).await;
    assert!(
        code == 0 && stdout.contains("  shop  "),
        "{stdout} {stderr}"
    );
    program.stop().await;
}

#[tokio::test]
async fn wrong_usage_is_exit_code_2() {
    for attach in [
        "https://127.0.0.1:1",
        "http://example.com:1",
        "/no/such/file",
        "nonsense",
    ] {
        let (code, stdout, stderr) = outcome(top(&["--attach", attach])).await;
        assert_eq!((code, stdout.as_str()), (2, ""), "{attach} {stderr}");
        assert!(stderr.contains("\n  hint: take the address"), "{stderr}");
    }
    let empty = tempfile::tempdir().unwrap();
    let mut command = top(&[]);
    command.env("XDG_RUNTIME_DIR", empty.path());
    let (code, _, stderr) = outcome(command).await;
    assert!(
        code == 1 && stderr.contains("no program to attach to"),
        "{stderr}"
    );
    let (code, _, _) = outcome(top(&["nosuchview"])).await;
    assert_eq!(code, 2);
    let (code, _, _) = outcome(top(&["--token", "t"])).await;
    assert_eq!(code, 2, "other users of a machine see flags");
}

/// The exit code and stderr of `top` at a server whose every reply is this.
async fn at(reply: String) -> (i32, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let _ = read_head(&mut stream).await;
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    let (code, stdout, stderr) = outcome(top(&["--attach", &address])).await;
    serving.abort();
    assert_eq!(
        (stdout.as_str(), stderr.lines().count()),
        ("", 2),
        "{stderr}"
    );
    (code, stderr)
}

#[tokio::test]
async fn another_server_or_another_version_is_one_line_and_a_remedy() {
    let ok = |body: &str| {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    for (reply, words) in [
        (
            ok("<html>hello</html>"),
            "something else than an inspector answers there",
        ),
        (ok("{}"), "something else than an inspector answers there"),
        (
            "SSH-2.0-OpenSSH_9.9\r\n".to_owned(),
            "something else than an inspector",
        ),
        (ok(r#"{"version":"v0"}"#), "speaks \"v0\""),
        (
            ok(r#"{"version":"v2\u001b[2J"}"#),
            "speaks \"v2\u{fffd}[2J\"",
        ),
        (
            "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n".to_owned(),
            "something else than an inspector answers there: HTTP 404",
        ),
    ] {
        let (code, stderr) = at(reply).await;
        assert!(code == 1 && stderr.contains(words), "{words}: {stderr}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let (code, _, stderr) = outcome(top(&["--attach", &address])).await;
    assert!(
        code == 1 && stderr.contains("nobody answers there"),
        "{stderr}"
    );
}

#[tokio::test]
async fn lines_end_with_the_program() {
    let program = Program::start().await;
    let url = program.url();
    let mut command = top(&["--attach", &url]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next_line().await.unwrap().unwrap();
    program.stop().await;
    while lines.next_line().await.unwrap().is_some() {}
    let output = child.wait_with_output().await.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("the program ended") && stderr.contains("\n  hint: "),
        "{stderr}"
    );
}

#[tokio::test]
async fn a_terminal_has_the_views_and_is_left_as_it_was() {
    let program = Program::start().await;
    let url = program.url();
    for (key, expected) in [("q", 0), ("\u{3}", 130)] {
        let mut terminal = Terminal::start(top(&["--attach", &url]));
        let screen = terminal.shows("─▶ store ").await;
        for part in [
            "kinform top · shop · pipeline",
            "[1 pipeline]",
            "> configmaps ",
            "live",
        ] {
            assert!(screen.contains(part), "{part}\n{screen}");
        }
        terminal.press("2");
        terminal.shows("QUARANTINED").await;
        terminal.press("6");
        terminal.shows("no problems are known").await;
        terminal.press(":obj");
        terminal.shows("\n:obj█").await;
        terminal.press("\r");
        terminal.shows("> default/a ").await;
        terminal.press("/we");
        terminal.shows("> default/web ").await;
        terminal.press("\rd");
        terminal.shows("versions since somebody looks").await;
        let path = format!("{CONFIG_MAPS}/web");
        let value = format!("new-{expected}");
        patch(
            program.server.server(),
            &path,
            json!({"data": {"k": value}}),
        )
        .await;
        let change = format!("→ \"{value}\"");
        terminal.shows(&change).await;
        terminal.press("y");
        terminal.shows("kind: ConfigMap").await;
        terminal.press("?");
        terminal.shows("Tab, Shift-Tab").await;
        terminal.press("x");
        terminal
            .until(|screen| !screen.contains("Tab, Shift-Tab"))
            .await;
        terminal.press(key);
        let (code, text, rest) = terminal.end().await;
        assert_eq!(
            (code, rest.contains("error")),
            (expected, false),
            "{rest:?}"
        );
        assert!(text.contains("\u{1b}[?1049h") && !text.contains(&program.token()));
        assert!(
            text.contains("\u{1b}[36m") || text.contains("\u{1b}[38;5;"),
            "colours"
        );
    }
    program.stop().await;
}

#[tokio::test]
async fn a_screen_without_colours_has_none() {
    let program = Program::start().await;
    let url = program.url();
    let mut command = top(&["caches", "--attach", &url]);
    command.env("NO_COLOR", "1");
    let mut terminal = Terminal::start(command);
    terminal.shows("synced").await;
    terminal.press("1");
    terminal.shows("─▶ store ").await;
    terminal.press("q");
    let (code, text, _) = terminal.end().await;
    assert_eq!(code, 0);
    for number in (30..=38).chain(40..=48).chain(90..=97) {
        for sequence in [format!("\u{1b}[{number}m"), format!("\u{1b}[{number};")] {
            assert!(!text.contains(&sequence), "{sequence:?}");
        }
    }
    program.stop().await;
}

#[tokio::test]
async fn the_terminal_is_given_back_when_the_program_ends_in_every_view() {
    let program = Program::start().await;
    let mut terminals = Vec::new();
    for (view, shown) in [
        ("pipeline", "─▶ store "),
        ("caches", "QUARANTINED"),
        ("queues", "no controllers"),
        ("objects", "> default/a "),
        ("memory", "> configmaps "),
        ("problems", "no problems are known"),
    ] {
        let mut terminal = Terminal::start(top(&[view, "--attach", &program.url()]));
        terminal.shows(shown).await;
        terminals.push(terminal);
    }
    // An object is read again and again, but for its managers.
    let mut object = Terminal::start(top(&["objects", "--attach", &program.url()]));
    object.shows("> default/a ").await;
    object.press("d");
    object.shows("versions since somebody looks").await;
    object.press("m");
    terminals.push(object);
    program.stop().await;
    for mut terminal in terminals {
        terminal.shows("! no answer for ").await;
        let (code, _, rest) = terminal.end().await;
        assert_eq!(code, 1);
        let lines: Vec<&str> = rest.lines().filter(|line| line.contains(": ")).collect();
        assert_eq!(lines.len(), 2, "a line and a hint: {rest:?}");
        assert!(
            rest.contains("the program ended") && rest.contains("hint: start it again"),
            "{rest:?}"
        );
    }
}
