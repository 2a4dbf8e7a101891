//! kubectl, of two releases, prints the same for both servers, except for listed differences.

use std::path::Path;
use std::thread;

use kinform_e2e::kubectl::{Release, cache, compare, differences, story};
use kinform_e2e::servers::{Host, Servers};

const STORY: &str = include_str!("../../kubectl/story.txt");
const DIFFERENCES: &str = include_str!("../../kubectl/differences.txt");

#[test]
fn kubectl_hears_the_same_from_both_servers() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let servers = runtime.block_on(Servers::start("kubectl's story")).unwrap();
    let Some(real) = servers.real() else {
        // Said aloud by then: kubectl is built where the real server is.
        return;
    };
    let place = |host: &'_ Host| (host.kubeconfig().to_owned(), host.home().to_owned());
    let (real, ours) = (place(real), place(servers.embedded()));
    let (real, ours) = ((&*real.0, &*real.1), (&*ours.0, &*ours.1));
    let mut releases = vec![Release::newest(&cache()).expect("built beside the real server")];
    match Release::oldest(&cache()) {
        Ok(oldest) => releases.push(oldest),
        Err(why) => {
            eprintln!("SKIPPED: kubectl 1.20's story: {why}");
            println!("RESULT | kubectl 1.20's story | both | skipped: no kubectl 1.20 ({why}) |");
        }
    }
    let (story, mut failed) = (story(STORY), Vec::new());
    assert!(story.len() > 180, "{}", story.len());
    for release in releases {
        let tell = |(kubeconfig, home): (&Path, &Path)| release.tell(&story, kubeconfig, home);
        let (of_real, of_ours) = thread::scope(|scope| {
            let of_real = scope.spawn(|| tell(real).unwrap());
            let of_ours = tell(ours).unwrap();
            (of_real.join().unwrap(), of_ours)
        });
        let listed = differences(DIFFERENCES, release.minor);
        let (report, wrong) = compare(&of_real, &of_ours, &listed);
        let minor = release.minor;
        eprintln!("kubectl 1.{minor}: {}", report.join("\n  "));
        let [same, differences @ ..] = &report[..] else {
            panic!("a report begins with how many are the same");
        };
        let (listed, others) = (differences.len(), wrong.len());
        println!(
            "RESULT | kubectl 1.{minor}'s story | both | {same}, {listed} differ as listed, {others} differ |"
        );
        failed.extend(wrong);
    }
    let count = failed.len();
    assert!(failed.is_empty(), "{count} steps:\n{}", failed.join("\n"));
}
