//! Both servers do what upstream's tests promise, and answer the same, except for listed
//! differences.

use kinform_e2e::conformance::run;
use kinform_e2e::servers::Servers;

#[test]
fn both_servers_tell_the_same_but_for_what_is_listed() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let servers = Servers::start("the conformance suite").await.unwrap();
        let filter = std::env::var("ROW").unwrap_or_default();
        let report = run(&servers, &filter).await.unwrap();
        eprint!("{report}");
        for line in report.results() {
            println!("RESULT | conformance | {line} |");
        }
        assert!(report.is_good());
        assert!(report.rows() >= 300 || !filter.is_empty());
        assert!(report.listed() * 10 <= report.rows() || !filter.is_empty());
    });
}
