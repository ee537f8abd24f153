use std::time::Duration;

use cadran_store::{Store, StoreError};
use sqlx::{Connection, PgConnection};

use crate::backend::{Fixture, Kind};

pub(crate) async fn every_server_has_a_number_of_its_own_for_good(fixture: &Fixture) {
    let store = &fixture.store;
    assert_eq!(store.enlist("one", 1).await.unwrap(), 0);
    assert_eq!(store.enlist("two", 2).await.unwrap(), 1);
    assert_eq!(store.enlist("one", 3).await.unwrap(), 0);
    let names: Vec<String> = (0..20).map(|no| format!("server {no}")).collect();
    let mut numbers = Vec::new();
    let all = names.iter().map(|name| store.enlist(name, 4));
    for number in futures::future::join_all(all).await {
        numbers.push(number.unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (2..22).collect::<Vec<u16>>(), "also when they start at once");
}

pub(crate) async fn a_record_is_one_servers_at_a_time(fixture: &Fixture) {
    let first = fixture.store.claim("one").await.unwrap();
    if fixture.kind == Kind::Memory {
        return;
    }
    let other = Store::open(&fixture.url).await.unwrap();
    let refused = other.claim("two").await.unwrap_err();
    assert!(matches!(refused, StoreError::Taken(_)), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("another server works on it") && said.contains("stop the other one"), "{said}");
    assert!(other.ping().await.is_ok(), "it may be read all the same");
    drop(first);
    let second = other.claim("two").await.unwrap();
    drop(second);
    // A server that starts again is not kept waiting by its former life.
    drop(other.claim("one").await.unwrap());
    other.close().await;
}

pub(crate) async fn a_claim_that_was_lost_is_told(fixture: &Fixture) {
    if fixture.kind != Kind::Postgres {
        return;
    }
    let mut first = fixture.store.claim("one").await.unwrap();
    let end_session = async || {
        let mut connection = PgConnection::connect(&fixture.url).await.unwrap();
        let sql = "select pg_terminate_backend(l.pid) from pg_locks l where l.locktype = 'advisory' and l.granted \
             and l.objid::bigint = hashtext(current_schema())::bigint & 4294967295";
        sqlx::query(sql).execute(&mut connection).await.unwrap();
    };
    // Somebody else is quicker than the session that is made anew.
    end_session().await;
    let second = fixture.store.claim("two").await.unwrap();
    let by = tokio::time::timeout(Duration::from_secs(60), first.lost()).await.expect("it is told");
    assert!(by.contains("another server") && by.contains("took the record"), "{by}");
    drop(second);
}
