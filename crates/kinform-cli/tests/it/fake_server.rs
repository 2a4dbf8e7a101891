//! Reading of requests by the servers that a test writes by hand.

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;

/// Reads the head of the next request; `None` when there is none.
pub(crate) async fn read_head(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}
