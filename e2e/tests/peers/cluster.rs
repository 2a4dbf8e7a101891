//! The real controllers, scheduler and kwok do a cluster's work on `kinform serve`.

use std::fs;
use std::path::{Path, PathBuf};

use kinform_e2e::peers::{Kubectl, Peer, Serve, build, errors, go, is_like, list, module};
use kinform_e2e::servers::Host;
use kinform_testkit::checks::stage::StageError;

use crate::{is_skipped, runtime};

const KWOK: (&str, &str) = ("sigs.k8s.io/kwok", "v0.8.0");
/// The stages of nodes and pods that kwok plays, of its own folder.
const STAGES: [&str; 5] = [
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
];
/// The results of the work, as commands of kubectl that wait for them.
const DONE: [&str; 8] = [
    "wait --timeout=60s --for=condition=Ready node/one node/two",
    "rollout status --timeout=60s -n work deployment/web",
    "rollout status --timeout=60s -n work statefulset/store",
    "rollout status --timeout=60s -n work daemonset/agent",
    "wait --timeout=60s -n work --for=condition=Complete job/once",
    "wait --timeout=60s -n work --for=jsonpath={.status.disruptionsAllowed}=2 pdb/web",
    "wait --timeout=60s -n work --for=jsonpath={.endpoints[2].conditions.ready}=true \
     endpointslice -l kubernetes.io/service-name=web",
    "wait --timeout=90s -n work --for=jsonpath={.status.lastSuccessfulTime} cronjob/often",
];

/// Builds kwok, and writes the stages that it plays.
fn kwok(home: &Path) -> Result<(PathBuf, PathBuf), StageError> {
    let folder = module(KWOK.0, KWOK.1)?;
    let program = home.join("kwok");
    let to = program.display().to_string();
    go(&folder, ["build", "-p", "2", "-o", &to, "./cmd/kwok"])?;
    let mut stages = String::new();
    for stage in STAGES {
        let text = fs::read_to_string(folder.join("kustomize/stage").join(stage))?;
        stages += &format!("---\n{text}\n");
    }
    let config = home.join("stages.yaml");
    fs::write(&config, stages)?;
    Ok((program, config))
}

/// Starts kwok as the kubelet of all nodes.
fn start_kwok((program, config): &(PathBuf, PathBuf), at: &Path) -> Result<Peer, StageError> {
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    Peer::start(
        program,
        [
            flag("kubeconfig", at),
            flag("config", config),
            "--manage-all-nodes".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
            "--server-address=127.0.0.1:0".to_owned(),
        ],
    )
}

/// Starts the real controllers and the real scheduler.
fn start_controllers(
    bin: &Path,
    at: &Path,
    (key, with_accounts): (&Path, bool),
) -> Result<[Peer; 2], StageError> {
    let flags = |more: &[String]| {
        let names = [
            "kubeconfig",
            "authentication-kubeconfig",
            "authorization-kubeconfig",
        ];
        let mut flags: Vec<String> = names
            .map(|name| format!("--{name}={}", at.display()))
            .into();
        flags.extend([
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=0".to_owned(),
        ]);
        flags.extend_from_slice(more);
        flags
    };
    let more = [
        format!("--service-account-private-key-file={}", key.display()),
        format!("--use-service-account-credentials={with_accounts}"),
    ];
    Ok([
        Peer::start(&bin.join("controller-manager"), flags(&more))?,
        Peer::start(&bin.join("scheduler"), flags(&[]))?,
    ])
}

/// Gives the cluster its work, waits until it is done, and takes it away.
fn work(kubectl: &Kubectl) -> Result<usize, StageError> {
    kubectl.run("create namespace work", "")?;
    kubectl.run("apply -f -", &list("work.yaml")?)?;
    for command in DONE {
        kubectl.run(command, "")?;
    }
    kubectl.run("scale -n work --replicas=1 deployment/web", "")?;
    kubectl.run(
        "wait --timeout=60s -n work --for=jsonpath={.status.replicas}=1 deployment/web",
        "",
    )?;
    kubectl.run("delete namespace work --timeout=90s", "")?;
    kubectl.run("delete node one two --timeout=60s", "")?;
    Ok(DONE.len() + 2)
}

/// The errors in a log that are not expected on a real server.
fn unexpected(log: &str) -> Result<Vec<String>, StageError> {
    let listed = list("errors.txt")?;
    let rows = listed.lines().filter(|line| !line.starts_with('#'));
    let patterns: Vec<&str> = rows
        .filter_map(|row| Some(row.split_once(" | ")?.0))
        .collect();
    let unknown = |error: &&str| !patterns.iter().any(|pattern| is_like(pattern, error));
    let errors = errors(log).into_iter().filter(unknown);
    Ok(errors.map(str::to_owned).collect())
}

/// One server's cluster: the real controllers, the real scheduler and kwok.
fn real_controllers(
    (name, kind): (&str, &str),
    at: &Path,
    credentials: (&Path, bool),
    kwok: &(PathBuf, PathBuf),
) -> Result<(), StageError> {
    let bin = build(&["controller-manager", "scheduler"])?;
    let mut peers: Vec<Peer> = start_controllers(&bin, at, credentials)?.into();
    peers.push(start_kwok(kwok, at)?);
    let logs = |peers: &[Peer]| -> String {
        let logs = peers.iter().map(Peer::log);
        logs.collect::<Vec<_>>().join("\n")
    };
    let steps = work(&Kubectl::new(at)?).map_err(|error| format!("{error}\n{}", logs(&peers)))?;
    for peer in &mut peers {
        peer.still_runs()?;
    }
    let wrong = unexpected(&logs(&peers))?;
    let count = wrong.len();
    println!("RESULT | {name} | {kind} | {steps} steps, {count} unexpected errors logged |");
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("{name} on the {kind} server logs:\n{}", wrong.join("\n")).into()),
    }
}

#[test]
fn the_real_controllers_and_scheduler_do_their_work() {
    let name = "kube-controller-manager, kube-scheduler, kwok";
    if is_skipped(name) {
        return;
    }
    let runtime = runtime();
    build(&["kubectl"]).unwrap();
    let home = tempfile::tempdir().unwrap();
    let kwok = kwok(home.path()).unwrap();
    let real = runtime.block_on(Host::real()).unwrap();
    let key = real.kubeconfig().with_file_name("sa.key");
    real_controllers((name, "real"), real.kubeconfig(), (&key, true), &kwok).unwrap();
    let ours = runtime
        .block_on(Serve::start(&["--kubelet=external"]))
        .unwrap();
    real_controllers((name, "embedded"), ours.kubeconfig(), (&key, false), &kwok).unwrap();
    let serve = Serve::start(&["--kubelet=external", "--rbac"]);
    let ours = runtime.block_on(serve).unwrap();
    let kind = "embedded, --rbac";
    real_controllers((name, kind), ours.kubeconfig(), (&key, true), &kwok).unwrap();
}

#[test]
fn kwok_is_the_kubelet_of_the_built_in_controllers() {
    let name = "kwok as the kubelet of --controllers";
    if is_skipped(name) {
        return;
    }
    build(&["kubectl"]).unwrap();
    let home = tempfile::tempdir().unwrap();
    let kwok = kwok(home.path()).unwrap();
    let serve = Serve::start(&["--kubelet=external", "--controllers"]);
    let ours = runtime().block_on(serve).unwrap();
    let mut peer = start_kwok(&kwok, ours.kubeconfig()).unwrap();
    let kubectl = Kubectl::new(ours.kubeconfig()).unwrap();
    let steps = work(&kubectl);
    let steps = steps.unwrap_or_else(|error| panic!("{error}\n{}", peer.log()));
    peer.still_runs().unwrap();
    println!("RESULT | {name} | embedded | {steps} steps |");
}
