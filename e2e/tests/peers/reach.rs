//! kubectl looks into a pod of kwok's through `kinform serve`: logs, commands, a forwarded port.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use kinform_e2e::peers::{Kubectl, Serve, build, list};
use kinform_testkit::checks::stage::StageError;

use crate::cluster::{kwok, start_kwok};
use crate::{is_skipped, runtime};

/// BOUND: the time until a byte comes back.
const PATIENCE: Duration = Duration::from_secs(60);
const READY: [&str; 2] = [
    "wait --timeout=60s --for=condition=Ready node/one",
    "wait --timeout=60s --for=condition=Ready pod/alone",
];
/// Commands, their input, and what they print.
const SEEN: [(&str, &str, &str); 6] = [
    ("logs alone", "", "first\nsecond\n"),
    ("logs alone --tail=1 -c main", "", "second\n"),
    (
        "logs alone --timestamps --tail=1",
        "",
        "2026-01-02T03:04:05.000000000Z second\n",
    ),
    ("exec alone -- echo hello", "", "hello\n"),
    // kwok does not pass on the end of an input: these commands end by themselves.
    ("exec -i alone -- head -c 10", "to and fro", "to and fro"),
    ("exec -i alone -c main -- head -n 1", "line\n", "line\n"),
];

/// Answers connections with their own bytes; returns its port.
fn echo() -> Result<u16, StageError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut buffer = [0; 1024];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
        }
    });
    Ok(port)
}

/// A port that is free at the moment.
fn free_port() -> Result<u16, StageError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

fn look(kubectl: &Kubectl) -> Result<usize, StageError> {
    kubectl.run("apply -f -", &list("reach.yaml")?)?;
    for command in READY {
        kubectl.run(command, "")?;
    }
    for (command, input, want) in SEEN {
        let got = kubectl.run(command, input)?;
        if got != want {
            return Err(format!("kubectl {command} printed {got:?}, not {want:?}").into());
        }
    }
    let failed = kubectl.run("exec alone -- false", "");
    let said = failed.err().map(|error| error.to_string());
    if !said.is_some_and(|said| said.contains("exit status 1")) {
        return Err("a command that fails is not told".into());
    }
    let (_forward, port) = runtime().block_on(kubectl.forward("pod/alone :80"))?;
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"through")?;
    let mut got = [0; 7];
    stream.read_exact(&mut got)?;
    if &got != b"through" {
        return Err(format!("{got:?} came back").into());
    }
    Ok(READY.len() + SEEN.len() + 2)
}

#[test]
fn kubectl_reaches_kwok_through_the_server() {
    let name = "kubectl logs, exec and port-forward to kwok";
    if is_skipped(name) {
        return;
    }
    build(&["kubectl"]).unwrap();
    let home = tempfile::tempdir().unwrap();
    let (program, config) = kwok(home.path()).unwrap();
    let log = home.path().join("log");
    let line = |text: &str| format!("2026-01-02T03:04:05.000000000Z stdout F {text}\n");
    fs::write(&log, line("first") + &line("second")).unwrap();
    let answers = list("kwok.yaml").unwrap();
    let answers = answers.replace("LOG", &log.display().to_string());
    let answers = answers.replace("PORT", &echo().unwrap().to_string());
    let stages = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{stages}\n---\n{answers}")).unwrap();
    let serve = Serve::start(&["--kubelet=external", "--controllers"]);
    let ours = runtime().block_on(serve).unwrap();
    let port = Some(free_port().unwrap());
    let mut peer = start_kwok(&(program, config), ours.kubeconfig(), port).unwrap();
    let kubectl = Kubectl::new(ours.kubeconfig()).unwrap();
    let steps = look(&kubectl);
    let steps = steps.unwrap_or_else(|error| panic!("{error}\n{}", peer.log()));
    peer.still_runs().unwrap();
    println!("RESULT | {name} | embedded | {steps} steps |");
}
