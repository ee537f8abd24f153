use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tower::Service;

/// Bounds of the listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections served at once; further ones wait in the kernel's queue.
    pub connections_max: usize,
    /// From the opening of a connection, or the end of the last answer, to the last byte of a request's head. Idle
    /// connections end by it too.
    pub head_time_max: Duration,
    /// Bytes of a request's head.
    pub head_bytes_max: usize,
    /// How long a client may take no byte of an answer that is ready for it.
    pub stall_time_max: Duration,
    /// How long open requests may go on after a stop.
    pub stop_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // Each costs a descriptor and some 20 KiB; a default descriptor limit is 1024.
            connections_max: 512,
            head_time_max: Duration::from_secs(15),
            head_bytes_max: 32 * 1024,
            stall_time_max: Duration::from_secs(30),
            stop_time_max: Duration::from_secs(3),
        }
    }
}

/// The other end of the connection a request came by.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Turns true when the listener is told to stop: streams end by it.
#[derive(Clone)]
pub(crate) struct Stopping(watch::Receiver<bool>);

impl Stopping {
    pub(crate) fn is_stopping(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when the listener is told to stop, or is gone.
    pub(crate) async fn stopped(&mut self) {
        let _ = self.0.wait_for(|stopping| *stopping).await;
    }
}

/// After a failed accept (descriptors used up, mostly): long enough not to spin, short enough not to be noticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` on `listener` until `stop` is done, then lets open requests end within `limits.stop_time_max` and
/// cuts the rest off.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>, limits: Limits) {
    let (stopped, stopping) = watch::channel(false);
    let stopping = Stopping(stopping);
    let room = Arc::new(Semaphore::new(limits.connections_max));
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            // The permit comes first: a connection that cannot be served is not taken from the kernel.
            let permit = room.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            (permit, accepted) = accepted => match accepted {
                Ok((stream, peer)) => {
                    let (router, stopping) = (router.clone(), stopping.clone());
                    connections.spawn(async move {
                        let _permit = permit;
                        connection(stream, peer, router, stopping, limits).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let _ = stopped.send(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.stop_time_max, all_ended).await.is_err() {
        tracing::info!(connections = connections.len(), "cutting off requests that did not end in time");
        connections.shutdown().await;
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    mut stopping: Stopping,
    limits: Limits,
) {
    let _ = stream.set_nodelay(true);
    let for_requests = stopping.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        request.extensions_mut().insert(for_requests.clone());
        let answer = router.clone().call(request);
        async move { Ok::<_, Infallible>(answer.await.unwrap_or_else(|never| match never {})) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time_max)
        // hyper needs 8 KiB at the least.
        .max_buf_size(limits.head_bytes_max.max(8192));
    let paced = Paced { stream, stall: None, stall_time_max: limits.stall_time_max };
    let mut served = pin!(builder.serve_connection(TokioIo::new(paced), service));
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stopping.stopped() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended badly");
    }
}

/// A stream whose writes fail when the other end takes nothing for too long.
struct Paced {
    stream: TcpStream,
    stall: Option<Pin<Box<Sleep>>>,
    stall_time_max: Duration,
}

impl Paced {
    fn paced<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stall = None;
            return done;
        }
        let limit = self.stall_time_max;
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(stall.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.paced(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.paced(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        self.paced(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
