//! A proxy that meddles with replies, between the binary and an embedded server.
//!
//! ```text
//! kinform ⇄ Meddler { clock │ buffers │ old │ lies } ⇄ embedded server (plain HTTP)
//! ```

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::fake_server::read_head;

/// The change that the proxy makes to replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meddling {
    /// The server's clock is an hour ahead.
    Clock,
    /// A watch is held back until it ends.
    Buffers,
    /// The server is of 2022.
    Old,
    /// A streaming list lacks an object.
    Lies,
}

/// A proxy, gone with the test.
pub(crate) struct Meddler {
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Drop for Meddler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Meddler {
    pub(crate) async fn start(server: SocketAddr, meddling: Meddling) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, server, meddling));
            }
        });
        Self { url, task }
    }
}

/// Answers one request and closes the connection.
async fn answer(stream: TcpStream, server: SocketAddr, meddling: Meddling) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let head = read_head(&mut stream).await?;
    let target = head.split(' ').nth(1)?.to_owned();
    if meddling == Meddling::Old && target == "/version" {
        let body = r#"{"major":"1","minor":"24","gitVersion":"v1.24.17"}"#;
        let reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        return stream.write_all(reply.as_bytes()).await.ok();
    }
    // A reply to HTTP/1.0 has no chunks, and ends with its connection.
    let mut upstream = BufReader::new(TcpStream::connect(server).await.ok()?);
    upstream
        .write_all(head.replacen("HTTP/1.1", "HTTP/1.0", 1).as_bytes())
        .await
        .ok()?;
    let mut head = read_head(&mut upstream).await?;
    if meddling == Meddling::Clock {
        let hour = jiff::SignedDuration::from_hours(1);
        let ahead = (jiff::Timestamp::now() + hour).strftime("%a, %d %b %Y %H:%M:%S GMT");
        let lines = head
            .lines()
            .map(|line| match line.to_lowercase().starts_with("date:") {
                true => format!("date: {ahead}"),
                false => line.to_owned(),
            });
        head = lines.map(|line| line + "\r\n").collect();
    }
    if meddling == Meddling::Buffers && target.contains("watch=") {
        let mut whole = Vec::new();
        upstream.read_to_end(&mut whole).await.ok()?;
        stream.write_all(head.as_bytes()).await.ok()?;
        return stream.write_all(&whole).await.ok();
    }
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut is_left_out = meddling == Meddling::Lies && target.contains("sendInitialEvents");
    let mut line = Vec::new();
    while upstream.read_until(b'\n', &mut line).await.ok()? > 0 {
        let is_added = line.windows(7).any(|part| part == b"\"ADDED\"");
        let skips = is_added && is_left_out;
        is_left_out &= !skips;
        if !skips {
            stream.write_all(&line).await.ok()?;
        }
        line.clear();
    }
    Some(())
}
