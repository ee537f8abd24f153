//! The file of executor groups, and the listener where executors and workers call.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use cadran_core::{Executor, GroupName};
use cadran_engine::{Event, ExecutorChange};
use cadran_exec::{Hub, Tokens};
use tokio::net::TcpListener;

use super::{Executors, LoopHandle};
use crate::defaults;

/// Groups of executors with the addresses that their file gives.
pub type FixedGroups = Vec<(GroupName, Vec<Executor>)>;

/// The file of executor groups, read at the start and again when SIGHUP asks for it.
pub struct GroupsFile {
    path: PathBuf,
    /// Somebody named the file: it has to be there.
    is_required: bool,
    /// The token given on the command line or in the environment; it goes before the file's.
    token: Option<String>,
    /// The tokens in force.
    pub tokens: Arc<Tokens>,
    /// The groups whose addresses the file gave when it was last read.
    fixed: Vec<GroupName>,
}

impl GroupsFile {
    /// Reads the file for the first time.
    pub fn open(
        path: PathBuf,
        is_required: bool,
        token: Option<String>,
    ) -> anyhow::Result<(GroupsFile, FixedGroups)> {
        let (tokens, groups) = read_groups(&path, is_required, token.as_deref())?;
        let fixed = groups.iter().map(|(name, _)| name.clone()).collect();
        Ok((GroupsFile { path, is_required, token, tokens: Arc::new(tokens), fixed }, groups))
    }

    /// Reads the file again. While it cannot be used, what it said before stays in force.
    pub fn reload(&mut self, loop_handle: &LoopHandle) {
        let (tokens, groups) = match read_groups(&self.path, self.is_required, self.token.as_deref()) {
            Ok(read) => read,
            Err(error) => return tracing::error!("{error:#}; tokens and addresses stay as they were"),
        };
        if self.tokens.is_empty() && !tokens.is_empty() {
            tracing::warn!("there is a token for executors now; start the server again to listen for them");
        }
        self.tokens.replace(tokens);
        let names: Vec<GroupName> = groups.iter().map(|(name, _)| name.clone()).collect();
        let gone =
            self.fixed.iter().filter(|name| !names.contains(name)).map(|name| (name.clone(), Vec::new()));
        let changes = gone.chain(groups).map(|(group, list)| ExecutorChange::Typed(group, list)).collect();
        loop_handle.send(Event::Executors(changes));
        self.fixed = names;
        tracing::info!("the file of executors was read again");
    }
}

/// Reads the file of executor groups. One that nobody named may be missing.
fn read_groups(path: &Path, is_required: bool, token: Option<&str>) -> anyhow::Result<(Tokens, FixedGroups)> {
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
    let tokens = Tokens::default();
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
    Ok((tokens, fixed))
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
