//! L4 and L12: heads of replies that are too large, and redirects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::server::{Call, Hostile};
use super::{SECOND, Victim, alone, options};

#[test]
fn l4_a_header_that_does_not_end_is_given_up() {
    alone("heads::l4_a_header_that_does_not_end_is_given_up", async {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let server = Hostile::start(move |mut call: Call| {
            let count = Arc::clone(&count);
            async move {
                call.write(b"HTTP/1.1 200 OK\r\nx-filling: ").await;
                let piece = vec![b'a'; 1 << 16];
                while call.write(&piece).await {
                    count.fetch_add(piece.len(), Ordering::Relaxed);
                }
            }
        })
        .await;
        let victim = Victim::of(&server, options());
        victim.until(|stats| stats.retries >= 3).await;
        let (sent, calls) = (sent.load(Ordering::Relaxed), server.calls());
        assert!(sent / calls < 16 << 20, "{sent} bytes in {calls} heads");
        victim.end().await;
    });
}

#[test]
fn l4_headers_without_number_are_given_up() {
    alone("heads::l4_headers_without_number_are_given_up", async {
        let server = Hostile::start(|mut call: Call| async move {
            call.write(b"HTTP/1.1 200 OK\r\n").await;
            call.write_for_ever(&b"x-filling: a\r\n".repeat(1_000))
                .await;
        })
        .await;
        let victim = Victim::of(&server, options());
        victim.until(|stats| stats.retries >= 3).await;
        victim.end().await;
    });
}

#[test]
fn l12_a_redirect_is_not_followed_and_the_token_goes_nowhere_else() {
    alone(
        "heads::l12_a_redirect_is_not_followed_and_the_token_goes_nowhere_else",
        async {
            let other = Hostile::start(Call::nothing).await;
            let location = format!("{}/api/v1/configmaps", other.url());
            let server = Hostile::start(move |mut call: Call| {
            let code = [301, 302, 303, 307, 308][call.number % 5];
            let head = format!(
                "HTTP/1.1 {code} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            async move {
                assert!(call.head.contains("Bearer canary"));
                call.write(head.as_bytes()).await;
            }
        })
        .await;
            let victim = Victim::of(&server, options());
            victim.fails("NotKubernetes").await;
            victim.until(|stats| stats.requests >= 6).await;
            tokio::time::sleep(SECOND / 2).await;
            assert_eq!(other.calls(), 0);
            victim.end().await;
        },
    );
}
