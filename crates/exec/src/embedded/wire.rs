//! What a server and the executor of its machine say to each other. A frame is its length in four bytes, the lowest
//! first, and one message in JSON.

use cadran_core::{Found, Millis, Order, Report, ReportKind, StepNo};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::journal::{Key, parse_outcome};
use crate::order_wire::{Named, WireOrder, WireReport, WireStart, outcome_text};

/// What every greeting begins with.
pub(super) const PROGRAM: &str = "cadran-executor";

/// The version of these messages. Both ends must have the same one.
pub(super) const PROTOCOL: u32 = 1;

/// Largest frame: an order with a megabyte of script and parameters, or a hundred outputs, written as JSON.
pub(super) const FRAME_BYTES_MAX: usize = 64 << 20;

/// A frame takes no further report or order when those in it are so large. One alone may be larger.
pub(super) const FRAME_BYTES_SOFT: usize = 4 << 20;

/// Reports or found attempts in one frame.
pub(super) const FRAME_ITEMS_MAX: usize = 1_000;

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Caller {
    /// A server, which gives orders and hears reports.
    Server,
    /// A command that asks how it is, or ends it.
    Control,
}

/// From the server or a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// The first message.
    Hello(Hello),
    /// Orders, numbered from one for each server.
    Orders { seq: u64, orders: Vec<WireOrder> },
    /// The server goes; what is on goes on.
    Leave,
    /// Everything is ended, and then the executor ends.
    Stop(Stop),
}

/// A caller says who it is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) program: String,
    pub(super) protocol: u32,
    pub(super) version: String,
    pub(super) caller: Caller,
    /// What holds for attempts that start from now on; of a server.
    pub(super) settings: Option<Settings>,
}

/// What a server decides about the processes of its steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) live_max: usize,
    pub(super) base_env: Vec<(String, String)>,
    pub(super) base_dir: String,
    #[serde(default)]
    pub(super) http_allow: Vec<String>,
}

/// How everything is ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stop {
    /// How long processes have after their signal.
    pub(super) patience_ms: u64,
    /// Why what is stopped has failed for good. Without it the next server starts it again.
    pub(super) for_good: Option<String>,
}

/// From the executor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The answer to a hello. A server is told what is [`Answer::Found`] next, up to [`Answer::Ready`].
    Welcome(Welcome),
    /// Attempts that are known.
    Found(Vec<WireFound>),
    /// That was all; reports follow.
    Ready,
    /// What happened to attempts.
    Reports(Vec<WireReport>),
    /// Orders up to this number are taken.
    Taken { seq: u64 },
    /// Its threads took up work so long ago.
    Beat { silence_ms: u64 },
    /// The answer to [`Request::Leave`].
    Left { running: usize, waiting: usize },
    /// The answer to [`Request::Stop`]: everything has ended, and so does the executor.
    Stopped,
    /// It does not work with this caller.
    Refused { error: String },
}

/// The executor says who it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Welcome {
    pub(super) program: String,
    pub(super) protocol: u32,
    pub(super) version: String,
    pub(super) pid: u32,
    /// This process of it.
    pub(super) life: String,
    pub(super) running: usize,
    pub(super) waiting: usize,
    /// Processes of the executor before it that were ended when it started; told to the first server.
    pub(super) cleared: usize,
    /// Where control groups are, or why there are none.
    pub(super) groups: Result<String, String>,
    /// What was wrong with the journal.
    pub(super) damage: Option<WireDamage>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WireDamage {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) count: usize,
    pub(super) copy: Option<String>,
}

/// An attempt that the executor knows.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireFound {
    attempt: Named,
    started_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<(Millis, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    lives: bool,
}

impl WireFound {
    pub(super) fn of(found: Found) -> WireFound {
        WireFound {
            attempt: Key { run: found.run, step: found.step, attempt: found.attempt }.into(),
            started_at: found.started_at,
            ended: found.ended.map(|(at, outcome)| (at, outcome_text(&outcome))),
            output: found.output.map(String::from),
            lives: found.lives,
        }
    }

    /// `None` when it is not what this program writes.
    pub(super) fn found(self) -> Option<Found> {
        let Key { run, step, attempt } = self.attempt.key()?;
        let ended = match self.ended {
            Some((at, text)) => Some((at, parse_outcome(&text)?)),
            None => None,
        };
        let (started_at, lives) = (self.started_at, self.lives);
        let output = self.output.map(String::into_boxed_str);
        Some(Found { run, step, attempt, started_at, ended, output, lives, seats: Vec::new() })
    }

    pub(super) fn bytes(&self) -> usize {
        self.output.as_ref().map_or(0, String::len)
    }
}

/// An order in words. `None` for one that concerns executors elsewhere, and for a start that is no command.
pub(super) fn order_out(order: &Order) -> Option<WireOrder> {
    Some(match order {
        Order::Start(start) => {
            let context = &start.context;
            let wire = WireStart::of(start, 0, (context.shard_index, context.shard_total))?;
            WireOrder::Start(Box::new(wire.with_job_preconditions(&context.body)))
        }
        Order::Stop { run, step, attempt } => {
            WireOrder::Stop(Key { run: *run, step: *step, attempt: *attempt }.into())
        }
        Order::Close { run } => WireOrder::Close(run.to_string()),
        Order::StopShare { .. } | Order::Gone { .. } => return None,
    })
}

/// The other way round; the error says what does not read.
pub(super) fn order_in(order: WireOrder) -> Result<Order, String> {
    Ok(match order {
        WireOrder::Start(start) => Order::Start(start.start()?.0),
        WireOrder::Stop(named) => {
            let Key { run, step, attempt } = named.key().ok_or("a stop names no attempt")?;
            Order::Stop { run, step, attempt }
        }
        WireOrder::Close(run) => {
            Order::Close { run: run.parse().map_err(|_| format!("`{run}` names no run"))? }
        }
    })
}

pub(super) fn report_out(report: Report) -> Option<WireReport> {
    let attempt = Key { run: report.run, step: report.step, attempt: report.attempt }.into();
    let (ended, output) = match report.kind {
        ReportKind::Started => (None, None),
        ReportKind::Ended { outcome, output } => (Some(outcome_text(&outcome)), output.map(String::from)),
        ReportKind::Seat(_) => return None,
    };
    Some(WireReport { attempt, at: report.at, ended, output })
}

pub(super) fn report_in(report: WireReport) -> Option<Report> {
    let Key { run, step: StepNo(step), attempt } = report.attempt.key()?;
    let kind = match report.outcome()? {
        None => ReportKind::Started,
        Some(outcome) => ReportKind::Ended { outcome, output: report.output.map(String::into_boxed_str) },
    };
    Some(Report { run, step: StepNo(step), attempt, at: report.at, kind })
}

/// One frame. Messages are made by this program, so that they can be written as JSON.
pub(super) fn frame(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    // A vector takes everything, and no map here has keys that are not text.
    let _ = serde_json::to_writer(&mut bytes, message);
    let len = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX).to_le_bytes();
    bytes[..4].copy_from_slice(&len);
    bytes
}

pub(super) async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> std::io::Result<()> {
    to.write_all(&frame(message)).await
}

/// Why no message came.
#[derive(Debug)]
pub(super) enum NoMessage {
    /// The other end is gone.
    Closed,
    /// What came is not a message of this protocol.
    Nonsense(String),
}

pub(super) async fn receive<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> Result<T, NoMessage> {
    let mut len = [0; 4];
    from.read_exact(&mut len).await.map_err(|_| NoMessage::Closed)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > FRAME_BYTES_MAX {
        return Err(NoMessage::Nonsense(format!("a message of {len} bytes, more than any there is")));
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes).await.map_err(|_| NoMessage::Closed)?;
    serde_json::from_slice(&bytes).map_err(|error| NoMessage::Nonsense(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_a_message_is_told_from_an_end() {
        let check = async |bytes: &[u8], nonsense: bool| {
            let got = receive::<Answer>(&mut &bytes[..]).await;
            assert_eq!(matches!(got, Err(NoMessage::Nonsense(_))), nonsense, "{bytes:?}: {got:?}");
        };
        check(b"", false).await;
        check(b"HTT", false).await;
        check(b"HTTP/1.1 200 OK\r\n\r\n", true).await;
        check(&frame(&Answer::Ready)[..6], false).await;
        check(&frame(&"what is this"), true).await;
        let mut bytes = &frame(&Answer::Taken { seq: 7 })[..];
        assert!(matches!(receive(&mut bytes).await, Ok(Answer::Taken { seq: 7 })));
    }
}
