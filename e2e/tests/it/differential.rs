//! kinform and the real client-go send the same notifications, on fifty scripted histories.

use kinform_e2e::differential::{Plan, is_possible, run};

#[test]
fn the_same_histories_give_the_same_notifications_as_the_real_client_go() {
    if !is_possible() {
        eprintln!("SKIPPED: no Go here to build client-go with; 50 histories were not compared");
        println!(
            "RESULT | kinform beside client-go: fifty histories | scripted | skipped: no Go |"
        );
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let outcome = runtime.block_on(run(Plan::default())).unwrap();
    eprint!("{outcome}");
    assert!(outcome.is_good(), "{outcome}");
    println!("RESULT | kinform beside client-go: fifty histories | scripted | ok |");
}
