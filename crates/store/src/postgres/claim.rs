use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{ACQUIRE_TIMEOUT, Postgres, connect, place};
use crate::StoreError;
use crate::claim::{Claim, Hold, TRIES_MAX, TRY_PAUSE};
use crate::error::Failure;

/// The lock, by two numbers: ours ("CADR") and the schema's, since one database may hold several records.
const LOCK: &str = "1128350802, hashtext(coalesce(current_schema(), ''))";

/// A session whose machine is gone ends within half a minute, and its lock with it, instead of hours later.
const SETTINGS: &str =
    "set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3";

/// What the session of a server is called; its name stands behind it.
const SESSION: &str = "cadran server ";

/// Tries while a former life of the same server has it, half a minute: until the settings above have ended its session.
const OWN_TRIES_MAX: u32 = 600;

/// Between two looks at the session.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

impl Postgres {
    pub(crate) async fn claim(&self, name: &str) -> Result<Claim, StoreError> {
        let options = self.options.clone().application_name(&format!("{SESSION}{name}"));
        let key = place(&options);
        let mut session = connect(&options, &key).await?;
        let failed = |error| StoreError::from_sqlx("claim", &key, error);
        session.execute(SETTINGS).await.map_err(failed)?;
        let mut tries = 0;
        loop {
            if lock(&mut session).await.map_err(failed)? {
                break;
            }
            let holder = holder(&mut session).await.map_err(failed)?;
            let is_own = holder.as_ref().is_some_and(|holder| holder.session == format!("{SESSION}{name}"));
            tries += 1;
            if tries > if is_own { OWN_TRIES_MAX } else { TRIES_MAX } {
                let detail = format!("another server works on it{}", described(holder));
                return Err(StoreError::Taken(Failure { operation: "claim", key, detail }));
            }
            sleep(TRY_PAUSE).await;
        }
        let (told, lost) = watch::channel(None);
        let keeping = tokio::spawn(keep(session, options, name.to_owned(), told));
        Ok(Claim::new(Hold::Session { lost, keeping }))
    }
}

/// Keeps the lock: a session that was lost, with the database or the network, is made anew. Ends when somebody else has
/// the lock by then.
async fn keep(
    mut session: PgConnection,
    options: PgConnectOptions,
    name: String,
    told: watch::Sender<Option<String>>,
) {
    loop {
        sleep(LOOK_PAUSE).await;
        if matches!(timeout(ACQUIRE_TIMEOUT, session.ping()).await, Ok(Ok(()))) {
            continue;
        }
        let Ok(Ok(mut fresh)) = timeout(ACQUIRE_TIMEOUT, options.connect()).await else { continue };
        let found = async {
            fresh.execute(SETTINGS).await?;
            if lock(&mut fresh).await? { Ok(None) } else { holder(&mut fresh).await.map(Some) }
        };
        match found.await {
            Ok(None) => session = fresh,
            // Its own former session, which the database has not missed yet; or nobody any more.
            Ok(Some(None)) => {}
            Ok(Some(Some(holder))) if holder.session == format!("{SESSION}{name}") => {}
            Ok(Some(holder)) => {
                let _ = told.send(Some(format!("another server{} took the record", described(holder))));
                return;
            }
            Err::<_, sqlx::Error>(_) => {}
        }
    }
}

async fn lock(session: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let sql = AssertSqlSafe(format!("select pg_try_advisory_lock({LOCK})"));
    sqlx::query(sql).fetch_one(session).await?.try_get(0)
}

/// Who has the lock.
struct Holder {
    session: String,
    address: String,
    since: String,
}

async fn holder(session: &mut PgConnection) -> Result<Option<Holder>, sqlx::Error> {
    let sql = "select coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''), \
         to_char(a.backend_start at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') \
         from pg_locks l join pg_stat_activity a on a.pid = l.pid \
         where l.locktype = 'advisory' and l.granted and l.classid::bigint = 1128350802 \
         and l.objid::bigint = hashtext(coalesce(current_schema(), ''))::bigint & 4294967295 \
         and l.database = (select oid from pg_database where datname = current_database())";
    let row = sqlx::query(sql).fetch_optional(session).await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Holder { session: row.try_get(0)?, address: row.try_get(1)?, since: row.try_get(2)? }))
}

fn described(holder: Option<Holder>) -> String {
    match holder {
        None => String::new(),
        Some(Holder { address, since, .. }) if address.is_empty() => {
            format!(" (on its machine, since {since})")
        }
        Some(Holder { address, since, .. }) => format!(" (from {address}, since {since})"),
    }
}
