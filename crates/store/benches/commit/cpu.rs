//! CPU time of this process and of a local PostgreSQL server.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use sqlx::{Connection, PgConnection};

pub(crate) struct Cpu {
    /// The server's first process; its children do the work.
    postmaster: Option<u32>,
}

impl Cpu {
    pub(crate) async fn of(url: &str) -> Cpu {
        if !url.starts_with("postgres") {
            return Cpu { postmaster: None };
        }
        let mut connection = PgConnection::connect(url).await.unwrap();
        let backend: i32 =
            sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
        let postmaster = stat(backend as u32).map(|stat| stat.parent);
        if postmaster.is_none() {
            println!("postgres: the server is on another machine; its CPU is not counted");
        }
        Cpu { postmaster }
    }

    pub(crate) fn used(&self) -> Duration {
        let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
        let micros = |time: nix::sys::time::TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
        let own = Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()));
        own + self.postmaster.map_or(Duration::ZERO, server)
    }
}

struct Stat {
    parent: u32,
    /// Of the process and of children that ended.
    ticks: u64,
    ticks_of_ended: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    Some(Stat {
        parent: number(1)? as u32,
        ticks: number(11)? + number(12)?,
        ticks_of_ended: number(13)? + number(14)?,
    })
}

fn server(postmaster: u32) -> Duration {
    let all = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let children: u64 =
        all.filter_map(stat).filter(|stat| stat.parent == postmaster).map(|stat| stat.ticks).sum();
    let ended = stat(postmaster).map_or(0, |stat| stat.ticks + stat.ticks_of_ended);
    // A tick is 10 ms on every Linux that matters.
    Duration::from_millis((children + ended) * 10)
}
