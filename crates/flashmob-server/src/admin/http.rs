//! The HTTP server behind `--admin`: `/status`, `/metrics`, and a gateway's live page ([`page`]).
//!
//! It only reads, with few exceptions: nodes announce themselves at `/join`, where a gateway or `flashmob discover` listens
//! ([`crate::discovery::hear`]); a gateway changes volumes as it is asked to ([`crate::status::VolumeQuestion`]). No client, however slow or many, may cost the event loop more than one report or announcement at a time
//! or the process more than a fixed amount of memory. A newcomer is accepted at once; where all places are taken it gets that of the address that has the most
//! ([`waiting`]). Requests that were meant for another host are refused ([`host`]), and in a cluster with keys those of anybody who has proven nothing
//! ([`gate`]): the first byte of a connection says whether it is TLS.
//!
//! hyper does HTTP/1.1, on a tokio runtime with one thread of its own. hyper has the limits that an exposed port needs (size,
//! number and deadline of headers), which the smaller tiny_http lacks; both are plain Rust, so static musl and Android builds
//! need nothing else. The cost, measured on
//! x86_64: 0.3 MiB resident and one sleeping thread before the first scrape, 0.8 MiB after a thousand.

mod answer;
mod gate;
mod host;
mod page;
#[cfg(test)]
mod tests;
mod timed;
mod waiting;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use self::answer::{Asker, answer};
use self::gate::Caller;
pub use self::host::Hosts;
use self::timed::timed;
use self::waiting::{Standing, Waiting};
use super::Reporter;
use crate::discovery::hear::Ear;
use crate::keys::AdminKeys;
use crate::keys::admin::Who;
use crate::keys::folder::ADMIN_PURPOSE;
use crate::net::ListenAddr;
use crate::net::tls::{HANDSHAKE_RECORD, accept};
use crate::status::finding::{Insecure, insecure};

/// Connections at once whose peers have proven nothing, and as many whose peers have. Most take little memory: where strangers come from 200 new addresses a
/// second, each has time for a handshake over a slow network.
pub const CONNECTIONS_MAX: usize = 128;
/// Connections of each kind that have an answer in memory. Enough for a few scrapers and a few people.
pub const ANSWERS_MAX: usize = 16;
/// A client that does not read its answer for so long makes room for the answer of another one.
const SILENCE: Duration = Duration::from_millis(500);
/// Size of a request's line and headers together; hyper takes no smaller limit.
pub const HEAD_BYTES_MAX: usize = 8192;
/// Headers in a request. A browser sends about 15.
pub const HEADERS_MAX: usize = 64;
/// A client has this long for its line and headers.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection lasts at most this long, whatever it does: twice the loop's time to answer, and time for a slow network.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause after a failed accept, usually for lack of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// Timeouts of clients.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    head: Duration,
    connection: Duration,
}

/// A running server; dropping it closes the port and every connection.
#[derive(Debug)]
pub struct AdminServer {
    local_addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Listens on `addr` (port 0: the kernel chooses) and answers from `reporter`, on a thread of its own.
///
/// # Errors
/// If the address cannot be bound or the thread cannot be started.
pub fn serve(addr: SocketAddr, reporter: Reporter) -> io::Result<AdminServer> {
    serve_both(addr, Some(reporter), None)
}

/// In the same way, also for announcements at `/join`; without a reporter for nothing else.
///
/// # Errors
/// As [`serve`].
pub fn serve_both(addr: SocketAddr, reporter: Option<Reporter>, ear: Option<Ear>) -> io::Result<AdminServer> {
    serve_on(TcpListener::bind(addr)?, reporter, ear, Hosts::default(), None)
}

/// As [`serve_both`], on a socket that listens already, for requests to these hosts, in a cluster with these keys.
///
/// # Errors
/// If the thread cannot be started.
pub fn serve_on(
    listener: TcpListener,
    reporter: Option<Reporter>,
    ear: Option<Ear>,
    hosts: Hosts,
    keys: Option<AdminKeys>,
) -> io::Result<AdminServer> {
    let timeouts = Timeouts { head: HEAD_TIMEOUT, connection: CONNECTION_TIMEOUT };
    let local_addr = listener.local_addr()?;
    let is_open = keys.is_none() && reporter.is_some() && ListenAddr::Tcp(local_addr).is_for_others();
    let warning = is_open.then(|| insecure(&local_addr.to_string(), Insecure::Administration));
    if let Some(warning) = &warning {
        log::warn!("{}", warning.sentence(&[]));
    }
    serve_with(listener, Asker::new(reporter, ear, hosts).with_keys(keys).with_warning(warning), timeouts)
}

fn serve_with(listener: TcpListener, asker: Asker, timeouts: Timeouts) -> io::Result<AdminServer> {
    listener.set_nonblocking(true)?;
    let local_addr = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // Only `Reporter::ask` and `change`, `Ear::hear` and `Reporter::replace` block, each one at a time; one thread more is for one whose asker has been
        // cut off.
        .max_blocking_threads(3)
        .thread_keep_alive(Duration::from_secs(1))
        .thread_name("admin-ask")
        .build()?;
    let (stop, stopped) = oneshot::channel();
    let asker = Arc::new(asker);
    let thread = std::thread::Builder::new()
        .name("admin".to_string())
        .spawn(move || run(runtime, listener, asker, timeouts, stopped))?;
    Ok(AdminServer { local_addr, stop: Some(stop), thread: Some(thread) })
}

impl AdminServer {
    /// Where it listens, with the port that the kernel chose.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        // Fails only if the thread has already ended.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the admin server on {} panicked", self.local_addr);
        }
    }
}

/// The body of the thread. It must not wait for a question to the event loop: that loop may be waiting for this thread.
fn run(runtime: Runtime, listener: TcpListener, asker: Arc<Asker>, timeouts: Timeouts, stopped: oneshot::Receiver<()>) {
    runtime.block_on(async {
        tokio::spawn(accept_all(listener, asker, timeouts));
        // An error means that the server was dropped without a message; it ends as well.
        let _ = stopped.await;
    });
    runtime.shutdown_background();
}

async fn accept_all(listener: TcpListener, asker: Arc<Asker>, timeouts: Timeouts) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(e) => return log::error!("the admin server cannot wait for connections: {e}"),
    };
    let waiting = Arc::new(Waiting::default());
    let (mut failing, mut number) = (false, 0);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                failing = false;
                number += 1;
                let was_let_in = |from| asker.keys.as_ref().is_some_and(|keys| keys.was_let_in(from));
                let standing = waiting.add(number, peer.ip().to_canonical(), was_let_in);
                let (asker, own) = (asker.clone(), standing.clone());
                let task = tokio::spawn(async move {
                    serve_one(stream, peer, asker, own.clone(), timeouts).await;
                    own.remove();
                });
                standing.is_served_by(task.abort_handle());
            }
            Err(e) => {
                if !failing {
                    log::warn!("the admin server cannot accept a connection: {e}");
                }
                failing = true;
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn serve_one(stream: TcpStream, peer: SocketAddr, asker: Arc<Asker>, standing: Standing, timeouts: Timeouts) {
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    // The client sees the failure; at a higher level strangers could fill the log.
    match tokio::time::timeout(timeouts.connection, serve_caller(stream, peer, asker, standing, timeouts)).await {
        Ok(Ok(())) => {}
        Ok(Err(e)) => log::debug!("admin client {peer}: {e}"),
        Err(_) => log::debug!("admin client {peer}: closed, request timed out"),
    }
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

async fn serve_caller(
    stream: TcpStream,
    peer: SocketAddr,
    asker: Arc<Asker>,
    standing: Standing,
    timeouts: Timeouts,
) -> Result<(), Failed> {
    let own = Arc::clone(&asker);
    let Some(keys) = &own.keys else { return serve_http(stream, peer, Caller::Open, asker, standing, timeouts).await };
    let mut first = [0];
    tokio::time::timeout(timeouts.head, stream.peek(&mut first)).await??;
    if first[0] != HANDSHAKE_RECORD {
        let caller = if peer.ip().is_loopback() { Caller::Here } else { Caller::Elsewhere };
        return serve_http(stream, peer, caller, asker, standing, timeouts).await;
    }
    standing.step();
    let turn = keys.wait(peer.ip());
    while let Some(wait) = turn.wait() {
        tokio::time::sleep(wait).await;
    }
    drop(turn);
    standing.step();
    let address = stream.local_addr().ok().map(|addr| addr.ip());
    let (secret, took) = timed(accept(stream, ADMIN_PURPOSE, |is_raw| keys.end(is_raw, address)));
    let secret = tokio::time::timeout(timeouts.head, secret).await;
    keys.took(peer.ip(), took.get());
    let (stream, proven) = secret??;
    standing.step();
    if keys.who(&proven).is_ok_and(|who| who != Who::Anybody) {
        standing.prove();
        keys.let_in(peer.ip());
    }
    serve_http(stream, peer, Caller::Secret(proven), asker, standing, timeouts).await
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
    caller: Caller,
    asker: Arc<Asker>,
    standing: Standing,
    timeouts: Timeouts,
) -> Result<(), Failed> {
    let caller = Arc::new(caller);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.head)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(move |request| answer(asker.clone(), peer, caller.clone(), standing.clone(), request)),
        );
    Ok(connection.await?)
}
