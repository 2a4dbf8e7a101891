//! F33: names that do not resolve, addresses, authorities and tokens that change.
//!
//! ```text
//! token file, certificate-authority file, DNS ──changed──▶ 401 | certificate not accepted | refused ──▶ followed
//! ```
//!
//! Over sockets, in real time. The files are those of a kubeconfig or of a pod's service account.

use std::net::{Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::InformerState;
use kinform::source::{ClientOptions, client_for};
use kinform_apiserver::{Builder, Server, User};
use kube_client::Config;

use super::peers::{create, factory, has};
use super::{Cell, Check, SECOND, check, each_live};

/// A file of this test and this cell, which is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(what: &str, cell: Cell, text: &str) -> Self {
        let cell = cell.to_string().replace(", ", "-");
        let name = format!("kinform-fault-{what}-{cell}-{}", std::process::id());
        let file = Self(std::env::temp_dir().join(name));
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn user(token: &str) -> Builder {
    let user = User::new("reader").with_group("system:masters");
    Server::builder().plain().user(token, user)
}

async fn token_rotates(cell: Cell) -> Check {
    let file = Scratch::new("token", cell, "first");
    let server = user("first").start().await?;
    let address = server.address().ok_or("no address")?;
    let mut config = Config::new(server.url().parse()?);
    config.auth_info.token_file = Some(file.0.to_string_lossy().into_owned());
    let factory = factory(client_for(config, &ClientOptions::default())?, cell);
    let maps = factory.informer::<ConfigMap>();
    factory.start()?;
    factory.synced_within(20 * SECOND).await?;
    // The old token is refused from now on; the informer's is read again as it is.
    let state = server.stop().await;
    file.write("second");
    let server = user("second").state(state).listen(address).start().await?;
    create(&server, "configmaps", "ConfigMap", "after").await?;
    has(&maps, "after", 60 * SECOND).await?;
    factory.shutdown().await;
    Ok(())
}

async fn address_changes(cell: Cell) -> Check {
    let file = Scratch::new("address", cell, "token");
    let server = user("token").start().await?;
    let address = server.address().ok_or("no address")?;
    let elsewhere = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port());
    let mut known = ("localhost", address.port()).to_socket_addrs()?;
    if !known.any(|known| known == elsewhere) || TcpListener::bind(elsewhere).is_err() {
        // The name has one address on this machine: it cannot change.
        return Ok(());
    }
    let mut config = Config::new(format!("http://localhost:{}", address.port()).parse()?);
    config.auth_info.token_file = Some(file.0.to_string_lossy().into_owned());
    let factory = factory(client_for(config, &ClientOptions::default())?, cell);
    let maps = factory.informer::<ConfigMap>();
    factory.start()?;
    factory.synced_within(20 * SECOND).await?;
    let state = server.stop().await;
    let server = user("token").state(state).listen(elsewhere).start().await?;
    create(&server, "configmaps", "ConfigMap", "after").await?;
    has(&maps, "after", 60 * SECOND).await?;
    factory.shutdown().await;
    Ok(())
}

async fn name_does_not_resolve(cell: Cell) -> Check {
    let config = Config::new("http://kinform-no-such-host.invalid:6443".parse()?);
    let factory = factory(client_for(config, &ClientOptions::default())?, cell);
    let maps = factory.informer::<ConfigMap>();
    factory.start()?;
    let is_refused = |state: &InformerState| {
        let reason = state.trouble().map(|trouble| &*trouble.reason);
        reason == Some("ConnectionRefused")
    };
    tokio::time::timeout(60 * SECOND, maps.state_when(is_refused)).await?;
    // It goes on asking.
    let before = maps.stats().requests;
    let more = async {
        while maps.stats().requests < before + 2 {
            tokio::time::sleep(SECOND / 20).await;
        }
    };
    tokio::time::timeout(60 * SECOND, more).await?;
    factory.shutdown().await;
    Ok(())
}

#[test]
fn f33_a_token_an_address_or_a_name_that_changes_is_followed() {
    let line = "F33 json,protobuf x list,stream x in-order,coalescing";
    each_live(line, async |cell| {
        token_rotates(cell).await?;
        address_changes(cell).await?;
        name_does_not_resolve(cell).await
    });
}

async fn authority_rotates(cell: Cell) -> Check {
    let tls = |token: &str| user(token).tls();
    let server = tls("token").start().await?;
    let address = server.address().ok_or("no address")?;
    let authority = Scratch::new("authority", cell, server.authority().unwrap_or_default());
    let token = Scratch::new("authority-token", cell, "token");
    let mut config = Config::new(server.url().parse()?);
    config.root_cert_file = Some(authority.0.clone());
    config.auth_info.token_file = Some(token.0.to_string_lossy().into_owned());
    let factory = factory(client_for(config, &ClientOptions::default())?, cell);
    let maps = factory.informer::<ConfigMap>();
    factory.start()?;
    factory.synced_within(20 * SECOND).await?;
    // Another server of another authority at the same place, and the file with it.
    server.stop().await;
    let server = tls("token").listen(address).start().await?;
    authority.write(server.authority().unwrap_or_default());
    create(&server, "configmaps", "ConfigMap", "after").await?;
    // The file is read once a minute.
    has(&maps, "after", 75 * SECOND).await?;
    let told = maps.stats().retries > 0;
    check(told, || format!("{:?}", maps.stats()))?;
    factory.shutdown().await;
    Ok(())
}

#[test]
fn f33_an_authority_that_rotates_is_followed_within_a_minute() {
    let line = "F33 json,protobuf x list,stream x in-order,coalescing";
    each_live(line, authority_rotates);
}
