//! A server that plays a script to one client: config maps over plain HTTP on loopback.
//!
//! ```text
//! Stage (the script) ──lock──▶ Plot { history, faults, cut } ◀──lock── one task a connection ──▶ client
//! ```
//!
//! Lists and watches are answered truthfully from the [`History`]; any untruth is a fault that the
//! script asked for. A step changes everything under one lock, so no request sees half of it. Each
//! connection carries one request, so that ending a watch ends nothing else. Events that are logged
//! when a watch is cut are sent before it ends.
//!
//! Upstream counterpart: `apiserver:pkg/endpoints/handlers`, as far as an informer sees it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::answer::{self, Answer, Request};
use super::history::{Change, History, Op};
use super::script::{Ending, Expired, Fault};

/// The state that the script and the connections share.
#[derive(Debug)]
pub(crate) struct Plot {
    pub(crate) history: History,
    pub(crate) streams: bool,
    pub(crate) page: Option<usize>,
    pub(crate) expired: Expired,
    /// The faults of the next requests.
    pub(crate) faults: Vec<Fault>,
    /// Requests wait for their answer.
    pub(crate) is_away: bool,
    /// Lists that were sent to their end.
    pub(crate) lists: u64,
    /// A streaming list reported changes inside.
    pub(crate) has_changed_inside: bool,
    /// The requests and their answers, for people.
    pub(crate) asked: Vec<String>,
    cuts: u64,
    cut_at: usize,
    ending: Ending,
    watchers: u64,
    watching: Option<u64>,
}

impl Plot {
    /// Ends the open watches after they have sent everything that happened until now.
    pub(crate) fn cut(&mut self, ending: Ending) {
        self.cuts += 1;
        self.cut_at = self.history.log().len();
        self.ending = ending;
        self.watching = None;
    }

    /// Returns whether a watch is open: it then receives all later events.
    pub(crate) fn is_watched(&self) -> bool {
        self.watching.is_some()
    }

    /// The first fault that can happen to such a request.
    pub(crate) fn meets(&mut self, fits: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let at = self.faults.iter().position(fits)?;
        Some(self.faults.remove(at))
    }

    /// Changes the state while a streaming list is read: one object is written, another one is
    /// deleted.
    pub(crate) fn change_inside(&mut self) {
        let mut keys = self.history.objects().keys().cloned();
        let (first, last) = (keys.next(), keys.next_back());
        let changes = [(Change::Write, first), (Change::Delete, last)];
        for (change, key) in changes {
            if let Some(key) = key.filter(|key| key != super::history::MARK) {
                self.history.commit(&Op { change, key });
            }
        }
    }
}

/// A server and its tasks; they end with it.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: watch::Sender<bool>,
    is_listening: watch::Receiver<bool>,
    task: JoinHandle<()>,
    // Keeps the port from other programs while the server refuses connections.
    _port: TcpSocket,
}

#[derive(Debug)]
struct Shared {
    plot: Mutex<Plot>,
    news: watch::Sender<u64>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Plot> {
        self.plot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

impl Server {
    /// Starts to listen; must be called inside a runtime.
    ///
    /// # Errors
    /// No port is free.
    pub(crate) async fn start(history: History, expired: Expired) -> io::Result<Self> {
        let port = socket((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = port.local_addr()?;
        let plot = Plot {
            history,
            streams: true,
            page: None,
            expired,
            faults: Vec::new(),
            is_away: false,
            lists: 0,
            has_changed_inside: false,
            asked: Vec::new(),
            cuts: 0,
            cut_at: 0,
            ending: Ending::Clean,
            watchers: 0,
            watching: None,
        };
        let shared = Arc::new(Shared {
            plot: Mutex::new(plot),
            news: watch::Sender::new(0),
        });
        let (listening, wanted) = watch::channel(true);
        let (tell, is_listening) = watch::channel(false);
        let task = tokio::spawn(serve(address, Arc::clone(&shared), wanted, tell));
        let mut server = Self {
            address,
            shared,
            listening,
            is_listening,
            task,
            _port: port,
        };
        server.listen(Listen::Accept).await;
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes the plot under the lock; waiting tasks look again.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Plot) -> T) -> T {
        let changed = change(&mut self.shared.lock());
        self.shared.news.send_modify(|news| *news += 1);
        changed
    }

    /// Reads the plot.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Plot) -> T) -> T {
        read(&self.shared.lock())
    }

    /// Waits until the plot satisfies the condition.
    pub(crate) async fn when(&self, is_so: impl Fn(&Plot) -> bool) {
        let mut news = self.shared.news.subscribe();
        // The sender lives as long as we do.
        while !self.read(&is_so) && news.changed().await.is_ok() {}
    }

    /// Accepts connections, or refuses them; when this returns, it does.
    pub(crate) async fn listen(&mut self, how: Listen) {
        let wanted = how == Listen::Accept;
        self.listening.send_replace(wanted);
        // Its end is the server's.
        let _ = self.is_listening.wait_for(|is| *is == wanted).await;
    }
}

/// The treatment of new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    Accept,
    Refuse,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    address: SocketAddr,
    shared: Arc<Shared>,
    mut wanted: watch::Receiver<bool>,
    tell: watch::Sender<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        if wanted.wait_for(|is| *is).await.is_err() {
            return;
        }
        // The server holds the port: it is bound all the time.
        let listener: TcpListener = match socket(address).and_then(|s| s.listen(64)) {
            Ok(listener) => listener,
            Err(error) => panic!("cannot listen at {address}: {error}"),
        };
        tell.send_replace(true);
        loop {
            tokio::select! {
                biased;
                _ = wanted.wait_for(|is| !*is) => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    connections.spawn(answer_one(stream, Arc::clone(&shared)));
                }
            }
        }
        drop(listener);
        tell.send_replace(false);
    }
}

/// A watch, as it was when it was opened.
#[derive(Debug, Default)]
struct Watcher {
    id: u64,
    cuts: u64,
    opened_at: usize,
}

/// Reads one request and answers it. A failed write ends the connection silently.
async fn answer_one(mut stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let Some(request) = read_request(&mut stream).await else {
        return;
    };
    let mut news = shared.news.subscribe();
    while shared.lock().is_away {
        if news.changed().await.is_err() {
            return;
        }
    }
    // The answer and the role of the watching connection are one decision.
    let (answer, watcher) = {
        let mut plot = shared.lock();
        let answer = answer::decide(&request, &mut plot);
        let watcher = matches!(answer, Answer::Watch { .. }).then(|| {
            plot.watchers += 1;
            plot.watching = Some(plot.watchers);
            Watcher {
                id: plot.watchers,
                cuts: plot.cuts,
                opened_at: plot.history.log().len(),
            }
        });
        (answer, watcher)
    };
    shared.news.send_modify(|news| *news += 1);
    match answer {
        Answer::HangUp => {}
        Answer::Whole { head, body } => {
            let _ = stream.write_all(&[head, body].concat()).await;
            let _ = stream.shutdown().await;
        }
        Answer::Brief { head, body, ending } => {
            let mut text = head;
            text.extend(chunk(&body));
            let _ = stream.write_all(&text).await;
            end(&mut stream, ending).await;
        }
        Answer::Watch { head, first, from } => {
            let watcher = watcher.unwrap_or_default();
            let mut text = head;
            text.extend(chunk(&first));
            if stream.write_all(&text).await.is_ok() {
                follow(&mut stream, &shared, from, &watcher).await;
            }
            let mut plot = shared.lock();
            if plot.watching == Some(watcher.id) {
                plot.watching = None;
            }
        }
    }
}

/// Sends all events until the watch is cut or the client closes.
async fn follow(stream: &mut TcpStream, shared: &Shared, from: usize, watcher: &Watcher) {
    let mut news = shared.news.subscribe();
    let (mut at, mut ignored) = (from, [0; 64]);
    loop {
        let (text, end_with) = {
            let plot = shared.lock();
            let is_cut = plot.cuts > watcher.cuts;
            let log = plot.history.log();
            let until = if is_cut { plot.cut_at } else { log.len() };
            let mut text = String::new();
            for (index, entry) in log.iter().enumerate().take(until).skip(at) {
                if !(entry.is_stray && index < watcher.opened_at) {
                    text.push_str(&entry.frame());
                }
            }
            at = at.max(until);
            (text, is_cut.then_some(plot.ending))
        };
        if stream.write_all(&chunk(text.as_bytes())).await.is_err() {
            return;
        }
        if let Some(ending) = end_with {
            return end(stream, ending).await;
        }
        tokio::select! {
            biased;
            changed = news.changed() => if changed.is_err() { return },
            read = stream.read(&mut ignored) => if !matches!(read, Ok(1..)) { return },
        }
    }
}

async fn end(stream: &mut TcpStream, ending: Ending) {
    let text = match ending {
        Ending::Clean => b"0\r\n\r\n".to_vec(),
        Ending::Cut => Vec::new(),
        Ending::MidFrame => chunk(br#"{"type":"MODIFIED","object":{"kind":"Conf"#),
        Ending::Error(code) => {
            let mut text = chunk(answer::error_frame(code).as_bytes());
            text.extend(b"0\r\n\r\n");
            text
        }
    };
    // A client that has closed its connection needs no answer.
    let _ = stream.write_all(&text).await;
    let _ = stream.shutdown().await;
}

/// The bytes as a chunk; empty for empty bytes, since an empty chunk ends the body.
fn chunk(bytes: &[u8]) -> Vec<u8> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let size = format!("{:x}\r\n", bytes.len());
    [size.as_bytes(), bytes, b"\r\n"].concat()
}

async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    // BOUND: a head; a GET has no body.
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(read @ 1..) if head.len() < 64 << 10 => head.extend(&piece[..read]),
            _ => return None,
        }
    }
    Request::parse(&String::from_utf8_lossy(&head))
}
