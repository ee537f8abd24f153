//! Triggers under a key of the caller's own.

mod world;

use cadran_core::{Command, IdempotencyKey, Refusal, Reply, RunId};
use world::*;

fn keyed(key: u128, request: u64) -> Command {
    let key = Some(IdempotencyKey { key, request });
    Command::Trigger { job: "tick".parse().unwrap(), params: vec![], addresses: vec![], parent: None, key }
}

fn run(reply: Result<Reply, Refusal>) -> RunId {
    match reply {
        Ok(Reply::Run(run)) => run,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_names_one_run_for_a_day_also_after_a_crash() {
    let mut world = World::new("2026-03-02T10:30:30Z");
    world.put("tick", "0 0 1 1 *", |_| {});
    let first = run(world.ask(keyed(1, 1)));
    assert_eq!(run(world.ask(keyed(1, 1))), first);
    assert_ne!(run(world.ask(keyed(2, 1))), first);
    assert_eq!(world.ask(keyed(1, 2)), Err(Refusal::KeyReused));
    world.run_for(MIN);
    assert_eq!(run(world.ask(keyed(1, 1))), first, "also when it is over");
    world.restart_after(HOUR);
    assert_eq!(run(world.ask(keyed(1, 1))), first, "also after a restart");
    assert_eq!(world.record.runs.len(), 2);
    // After a day the key is free again, in the engine as in the record.
    world.run_for(23 * HOUR);
    assert_ne!(run(world.ask(keyed(1, 1))), first);
    world.restart_after(DAY + MIN);
    assert_eq!(world.record.runs.len(), 3);
    run(world.ask(keyed(2, 7)));
    world.run_for(MIN);
    world.check();
}

#[test]
fn a_refused_trigger_leaves_its_key_free() {
    let mut world = World::new("2026-03-02T10:30:30Z");
    assert!(matches!(world.ask(keyed(1, 1)), Err(Refusal::NoSuchJob(_))));
    world.put("tick", "0 0 1 1 *", |_| {});
    run(world.ask(keyed(1, 1)));
    world.run_for(MIN);
    world.check();
}
