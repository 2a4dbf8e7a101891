//! Both servers do what upstream's tests promise, and answer the same, except for listed
//! differences.

use kinform_e2e::conformance::{Wanted, run};
use kinform_e2e::servers::Servers;

#[test]
fn both_servers_tell_the_same_but_for_what_is_listed() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let servers = Servers::start("the conformance suite").await.unwrap();
        let wanted = Wanted {
            row: std::env::var("ROW").unwrap_or_default(),
            // The scripts that build and start the real server read it, too.
            older: std::env::var("KINFORM_E2E_KUBERNETES").ok(),
        };
        let report = run(&servers, &wanted).await.unwrap();
        eprint!("{report}");
        for line in report.results() {
            println!("RESULT | conformance | {line} |");
        }
        assert!(report.is_good());
        let is_whole = wanted.row.is_empty();
        // A name that no row has is a mistake.
        assert!(report.rows() >= 300 || !is_whole && report.rows() > 0);
        assert!(report.listed() * 10 <= report.rows() || !is_whole || wanted.older.is_some());
    });
}
