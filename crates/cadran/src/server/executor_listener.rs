//! The file of executor groups, and the listener where executors and workers call.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use cadran_core::{Executor, GroupName};
use cadran_exec::{Hub, Tokens};
use tokio::net::TcpListener;

use super::Executors;
use crate::defaults;

/// Groups of executors with the addresses that their file gives.
pub type FixedGroups = Vec<(GroupName, Vec<Executor>)>;

/// Reads the file of executor groups. One that nobody named may be missing.
///
/// `token` is the one given on the command line or in the environment; it goes before the file's.
pub fn read_groups(
    path: &Path,
    is_required: bool,
    token: Option<&str>,
) -> anyhow::Result<(Arc<Tokens>, FixedGroups)> {
    let file = match fs::read(path) {
        Ok(text) => cadran_spec::read_executors(&text).map_err(|diagnostics| {
            let name = path.display().to_string();
            let text = String::from_utf8_lossy(&text);
            let all: Vec<String> = diagnostics.iter().map(|one| one.render(&name, &text, false)).collect();
            anyhow::anyhow!("the file of executors cannot be used\n{}", all.join("\n"))
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_required => Default::default(),
        Err(error) => bail!("cannot read the file of executors {}: {error}", path.display()),
    };
    let mut tokens = Tokens::default();
    if let Some(token) = token.or(file.token.as_deref()) {
        tokens.set_all(token)?;
    }
    let mut fixed = FixedGroups::new();
    for group in file.groups {
        if let Some(token) = &group.token {
            tokens.set(group.name.clone(), token).with_context(|| format!("group {}", group.name))?;
        }
        if !group.executors.is_empty() {
            fixed.push((group.name, group.executors));
        }
    }
    Ok((Arc::new(tokens), fixed))
}

/// The listener where executors register and report.
pub struct ExecutorListener {
    /// Its address.
    pub address: SocketAddr,
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl ExecutorListener {
    /// Opens the listener, if a token is set: without one anybody could report results.
    pub async fn open(
        listen: SocketAddr,
        tokens: &Arc<Tokens>,
        executors: Arc<Executors>,
        hub: Arc<Hub>,
    ) -> anyhow::Result<Option<ExecutorListener>> {
        if tokens.is_empty() {
            return Ok(None);
        }
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("cannot listen for executors on {listen}"))?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "executors speak plain HTTP: let nobody but them reach this address");
        }
        let counts = executors.counts.clone();
        let workers = cadran_http::worker_router(hub, tokens.clone(), counts.clone());
        let router = cadran_http::executor_router(executors, tokens.clone(), counts).merge(workers);
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let until = async {
            let _ = stopped.await;
        };
        let task = tokio::spawn(cadran_http::serve(listener, router, until, defaults::executor_http()));
        Ok(Some(ExecutorListener { address, stop, task }))
    }

    /// Stops listening, and waits until open requests are answered.
    pub async fn close(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}
