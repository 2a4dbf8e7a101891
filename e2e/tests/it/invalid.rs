//! The embedded server refuses invalid writes with the real server's code.

use kinform_apiserver::Server;
use kinform_e2e::invalid::run;
use kinform_e2e::servers::Servers;

/// The seed, if `KINFORM_SEED` names no other.
const SEED: u64 = 7;
/// The number of writes, if `KINFORM_WRITES` names no other.
const WRITES: usize = 800;
/// The least percentage of refusals that must have the same words.
const SAME_WORDS: usize = 85;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

#[test]
fn what_a_real_server_refuses_ours_refuses_with_the_same_code() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let builder = Server::builder().keep_inert_objects();
        let servers = Servers::start_as(builder, "invalid writes").await.unwrap();
        let seed = number("KINFORM_SEED").unwrap_or(SEED);
        let writes = number("KINFORM_WRITES").map_or(WRITES, |count| count as usize);
        let Some(report) = run(&servers, seed, writes).await.unwrap() else {
            // The reason has been printed by then.
            return;
        };
        eprint!("{report}");
        for line in report.results() {
            println!("RESULT | invalid writes | {line} |");
        }
        assert!(report.is_good(), "a code differs that is not listed");
        assert!(report.sent() == writes && report.refused() * 2 >= writes);
        assert!(report.same_words() >= SAME_WORDS, "{}", report.same_words());
    });
}
