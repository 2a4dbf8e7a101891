//! The settings of a client's connections.
//!
//! ```text
//! ClientOptions ──▶ connector: TCP keepalive, user timeout, time to connect
//!              ├──▶ request timeout
//!              └──▶ requests a second
//! ```
//!
//! Upstream counterpart: `client-go:rest/config.go`, `apimachinery:pkg/util/net/http.go`.

use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use kinform_api::mutant;

use super::protocol::Protocol;

/// Settings of a client's connections; the defaults are right for informers.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    keepalive_idle: Duration,
    keepalive_interval: Duration,
    keepalive_retries: u32,
    user_timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) request_timeout: Option<Duration>,
    /// `None` if the server chooses it.
    pub(super) protocol: Option<Protocol>,
    pub(super) requests_per_second: u32,
    pub(super) burst: u32,
}

impl Default for ClientOptions {
    /// Probes after 13 s without traffic, each 5 s, three of them; 28 s for unanswered data; 10 s to
    /// connect; 50 requests a second, after a burst of 100.
    fn default() -> Self {
        Self {
            keepalive_idle: Duration::from_secs(13),
            keepalive_interval: Duration::from_secs(5),
            keepalive_retries: 3,
            // Looked at when a probe is due: a little less than 30 s is noticed before 30 s.
            user_timeout: Duration::from_secs(28),
            connect_timeout: Duration::from_secs(10),
            request_timeout: None,
            protocol: None,
            requests_per_second: 50,
            burst: 100,
        }
    }
}

impl ClientOptions {
    /// The defaults, without HTTP/2 if the environment sets `DISABLE_HTTP2` to any text.
    ///
    /// Upstream: client-go and kubectl read the same variable.
    #[must_use]
    pub fn from_env() -> Self {
        let options = Self::default();
        match std::env::var_os("DISABLE_HTTP2") {
            Some(text) if !text.is_empty() => options.without_http2(),
            _ => options,
        }
    }

    /// Time for a TCP connection to come about. Default: 10 s. The connection with its proxy and TLS has
    /// twice that.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Time from a request to the head of its reply; zero is no limit. Default: no limit.
    ///
    /// The body, which a watch sends for minutes, may take longer. kubectl's `--request-timeout`
    /// ends watches, too.
    #[must_use]
    pub fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout).filter(|timeout| !timeout.is_zero());
        self
    }

    /// Offers the server HTTP/1.1 only: a connection for each reply under way. By default a server
    /// may choose HTTP/2, whose connections are shared by 64 replies each.
    #[must_use]
    pub fn without_http2(mut self) -> Self {
        self.protocol = Some(Protocol::Http1);
        self
    }

    /// Requests that the client sends in a second, after a burst of them at once; there is no limit if
    /// `per_second` is zero. Default: 50, 100.
    ///
    /// Requests beyond wait for their turn. Watches and streaming lists are outside of the limit.
    /// The limit is shared by all clones of a client, and so by all its informers.
    ///
    /// Upstream: `rest.Config` (`QPS` 5 and `Burst` 10 there, controllers set more).
    #[doc(alias = "QPS")]
    #[must_use]
    pub fn with_rate_limit(mut self, per_second: u32, burst: u32) -> Self {
        (self.requests_per_second, self.burst) = (per_second, burst);
        self
    }

    /// A dead peer is noticed within about this time. Default: 30 s.
    #[must_use]
    pub fn with_dead_peer_after(mut self, time: Duration) -> Self {
        self.user_timeout = time * 14 / 15;
        self.keepalive_idle = time * 13 / 30;
        self.keepalive_interval = time / 6;
        self
    }

    pub(super) fn connector(&self) -> HttpConnector {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(self.connect_timeout));
        let idle = (!mutant!("B19")).then_some(self.keepalive_idle);
        connector.set_keepalive(idle);
        connector.set_keepalive_interval(Some(self.keepalive_interval));
        connector.set_keepalive_retries(Some(self.keepalive_retries));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        connector.set_tcp_user_timeout(Some(self.user_timeout));
        connector
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use socket2::SockRef;
    use tower::ServiceExt;

    async fn check(options: &ClientOptions, dead_after: Duration) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap());
        let connection = options.connector().oneshot(uri.parse().unwrap());
        let stream = connection.await.unwrap().into_inner();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert!(socket.tcp_nodelay().unwrap());
        // Idle: the first probe, and then `probes` more without a reply.
        let first = socket.tcp_keepalive_time().unwrap();
        let each = socket.tcp_keepalive_interval().unwrap();
        let probes = socket.tcp_keepalive_retries().unwrap();
        assert!(probes >= 2, "one lost packet is no dead peer");
        assert!(first + each * probes < dead_after);
        // Waiting for an answer.
        assert!(socket.tcp_user_timeout().unwrap().unwrap() < dead_after);
    }

    #[tokio::test]
    async fn sockets_notice_a_dead_peer_within_thirty_seconds() {
        check(&ClientOptions::default(), Duration::from_secs(30)).await;
        let options = ClientOptions::default().with_dead_peer_after(Duration::from_secs(6));
        check(&options, Duration::from_secs(6)).await;
    }
}
