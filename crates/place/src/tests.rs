mod chance;

use super::*;
use cadran_core::{Access, FootprintSpec, OnConflict, PoolShare};

fn place(slots: usize) -> Place {
    Place::new(Limits { slots, waiting_per_job_max: 3, waiting_max: 10 })
}

fn run(raw: u64) -> RunId {
    RunId::from_raw(raw)
}

fn candidate(raw: u64, job: u32, overlap: Overlap) -> Candidate {
    let trigger = Trigger::Schedule;
    let footprint = None;
    let (run, job, due) = (run(raw), JobId(job), raw as Millis);
    Candidate { run, job, due, trigger, of_backlog: false, priority: 0, overlap, footprint }
}

const HELD: Verdict = Verdict::Wait(WaitReason::Job(RunId::from_raw(1)));

#[test]
fn each_overlap_policy_has_its_answer() {
    let check = |overlap, verdict, stop: &[u64], displaced: &[u64]| {
        let mut place = place(10);
        assert_eq!(place.admit(candidate(1, 7, overlap)).verdict, Verdict::Start, "{overlap:?}");
        if overlap == Overlap::Latest {
            assert_eq!(place.admit(candidate(2, 7, overlap)).verdict, HELD);
        }
        let admission = place.admit(candidate(3, 7, overlap));
        assert_eq!(admission.verdict, verdict, "{overlap:?}");
        assert_eq!(admission.stop, stop.iter().map(|&raw| run(raw)).collect::<Vec<_>>(), "{overlap:?}");
        assert_eq!(
            admission.displaced,
            displaced.iter().map(|&raw| run(raw)).collect::<Vec<_>>(),
            "{overlap:?}"
        );
    };
    check(Overlap::Allow, Verdict::Start, &[], &[]);
    check(Overlap::Skip, Verdict::Skip(SkipReason::Overlap), &[], &[]);
    check(Overlap::Wait, HELD, &[], &[]);
    check(Overlap::Latest, HELD, &[], &[2]);
    check(Overlap::Replace, HELD, &[1], &[]);
}

#[test]
fn waiters_start_one_after_another_in_order() {
    let mut place = place(10);
    for raw in 1..=4 {
        place.admit(candidate(raw, 7, Overlap::Wait));
    }
    assert_eq!(place.waiting(), 3);
    assert_eq!(place.release(run(1)).starts, [run(2)]);
    assert_eq!(place.release(run(3)).starts, []); // withdrawn while waiting
    assert_eq!(place.release(run(2)).starts, [run(4)]);
    assert_eq!(place.release(run(4)).starts, []);
    assert_eq!((place.started(), place.waiting()), (0, 0));
    assert!(place.jobs.is_empty() && place.runs.is_empty());
}

#[test]
fn a_full_wait_room_is_a_skip_with_a_reason() {
    let mut place = place(10);
    for raw in 1..=4 {
        place.admit(candidate(raw, 7, Overlap::Wait));
    }
    assert_eq!(place.admit(candidate(5, 7, Overlap::Wait)).verdict, Verdict::Skip(SkipReason::WaitRoomFull));
    assert_eq!(place.waiting(), 3);
}

#[test]
fn slots_go_to_the_most_urgent() {
    let mut place = place(1);
    assert_eq!(place.admit(candidate(1, 1, Overlap::Skip)).verdict, Verdict::Start);
    assert_eq!(place.admit(candidate(2, 2, Overlap::Skip)).verdict, Verdict::Wait(WaitReason::Slot));
    let urgent = Candidate { priority: 5, ..candidate(3, 3, Overlap::Skip) };
    assert_eq!(place.admit(urgent).verdict, Verdict::Wait(WaitReason::Slot));
    // A run that waits for a slot holds its job.
    assert_eq!(place.admit(candidate(4, 3, Overlap::Skip)).verdict, Verdict::Skip(SkipReason::Overlap));
    assert_eq!(place.release(run(1)).starts, [run(3)]);
    assert_eq!(place.release(run(3)).starts, [run(2)]);
    assert_eq!(place.release(run(2)).starts, []);
    assert_eq!((place.started(), place.waiting()), (0, 0));
}

#[test]
fn an_item_of_a_backlog_waits_under_skip_whatever_is_active() {
    let mut place = place(10);
    let of_backlog = |raw| Candidate { of_backlog: true, ..candidate(raw, 7, Overlap::Skip) };
    assert_eq!(place.admit(of_backlog(1)).verdict, Verdict::Start);
    assert_eq!(place.admit(of_backlog(2)).verdict, HELD);
    assert_eq!(place.release(run(1)).starts, [run(2)]);
    place.release(run(2));
    assert_eq!(place.admit(candidate(3, 7, Overlap::Skip)).verdict, Verdict::Start);
    let behind_run_3 = Verdict::Wait(WaitReason::Job(run(3)));
    assert_eq!(place.admit(of_backlog(4)).verdict, behind_run_3);
    assert_eq!(place.admit(candidate(5, 7, Overlap::Skip)).verdict, Verdict::Skip(SkipReason::Overlap));
    assert_eq!(place.release(run(3)).starts, [run(4)]);
}

#[test]
fn a_restart_stops_what_is_active_under_any_policy() {
    for overlap in [Overlap::Allow, Overlap::Skip, Overlap::Wait, Overlap::Latest, Overlap::Replace] {
        let mut place = place(10);
        place.admit(candidate(1, 7, overlap));
        let restart = Candidate { trigger: Trigger::Restart, ..candidate(2, 7, overlap) };
        let admission = place.admit(restart);
        assert_eq!((admission.verdict, admission.stop), (HELD, vec![run(1)]), "{overlap:?}");
        assert_eq!(place.release(run(1)).starts, [run(2)]);
    }
}

#[test]
fn candidates_are_ordered_by_priority_due_and_submission() {
    let mut candidates = vec![
        candidate(3, 1, Overlap::Skip),
        Candidate { priority: 1, ..candidate(9, 2, Overlap::Skip) },
        Candidate { due: 3, ..candidate(2, 3, Overlap::Skip) },
    ];
    Place::order(&mut candidates);
    let order: Vec<u64> = candidates.iter().map(|candidate| candidate.run.raw()).collect();
    assert_eq!(order, [9, 2, 3]);
}

#[test]
fn a_backlog_replaces_nobody_and_goes_on_behind_a_run_that_replaces_its_own() {
    let mut place = place(10);
    let of_backlog = |raw| Candidate { of_backlog: true, ..candidate(raw, 7, Overlap::Replace) };
    assert_eq!(place.admit(of_backlog(1)).verdict, Verdict::Start);
    assert_eq!(place.admit(of_backlog(2)), HELD.into());
    let by_hand = place.admit(candidate(3, 7, Overlap::Replace));
    assert_eq!((by_hand.stop, by_hand.displaced), (vec![run(1)], vec![]));
    assert_eq!(place.release(run(1)).starts, [run(3)]);
    assert_eq!(place.release(run(3)).starts, [run(2)]);
}

#[test]
fn under_latest_a_backlog_keeps_only_its_newest() {
    let mut place = place(10);
    let of_backlog = |raw| Candidate { of_backlog: true, ..candidate(raw, 7, Overlap::Latest) };
    assert_eq!(place.admit(candidate(1, 7, Overlap::Latest)).verdict, Verdict::Start);
    assert_eq!(place.admit(of_backlog(2)).displaced, []);
    assert_eq!(place.admit(of_backlog(3)).displaced, [run(2)]);
    assert_eq!(place.release(run(1)).starts, [run(3)]);
}

#[test]
fn a_freed_slot_goes_to_the_line_before_the_same_job() {
    let mut place = place(1);
    for raw in 1..=3 {
        place.admit(candidate(raw, 7, Overlap::Wait));
    }
    place.admit(Candidate { due: 0, ..candidate(4, 8, Overlap::Wait) });
    assert_eq!(place.release(run(1)).starts, [run(4)]);
    assert_eq!(place.release(run(4)).starts, [run(2)]);
    assert_eq!(place.release(run(2)).starts, [run(3)]);
    place.release(run(3));
    assert_eq!((place.started(), place.waiting()), (0, 0));
}

#[test]
fn nothing_passes_a_restart_that_waits() {
    let mut place = place(10);
    for raw in 1..=2 {
        assert_eq!(place.admit(candidate(raw, 7, Overlap::Allow)).verdict, Verdict::Start);
    }
    let restart = place.admit(Candidate { trigger: Trigger::Restart, ..candidate(3, 7, Overlap::Allow) });
    assert_eq!((restart.verdict, restart.stop), (HELD, vec![run(1), run(2)]));
    for raw in 4..=5 {
        assert_eq!(place.admit(candidate(raw, 7, Overlap::Allow)).verdict, HELD);
    }
    assert_eq!(place.release(run(1)).starts, []);
    assert_eq!(place.release(run(2)).starts, [run(3), run(4), run(5)]);
    assert_eq!((place.started(), place.waiting()), (3, 0));
}

/// A candidate of a job of its own that touches `r a:x, w b:y, c port:1, 2 gpu` of a capacity of 4.
fn touching(raw: u64, text: &str) -> Candidate {
    let mut spec = FootprintSpec::default();
    for item in text.split(", ") {
        let (how, name) = item.split_once(' ').unwrap();
        let name = name.to_owned();
        match how {
            "r" => spec.reads.push(name),
            "w" => spec.writes.push(name),
            "c" => spec.claims.push(name),
            units => spec.pools.push(PoolShare { pool: name, units: units.parse().unwrap(), capacity: 4 }),
        }
    }
    let footprint = spec.resolve(&[], &[]).map(Arc::new);
    Candidate { footprint, ..candidate(raw, raw as u32, Overlap::Skip) }
}

fn changed(candidate: Candidate, change: impl FnOnce(&mut Footprint)) -> Candidate {
    let mut footprint = (**candidate.footprint.as_ref().unwrap()).clone();
    change(&mut footprint);
    Candidate { footprint: Some(Arc::new(footprint)), ..candidate }
}

const KEYS: Verdict = Verdict::Wait(WaitReason::Footprint);

#[test]
fn runs_that_touch_the_same_things_never_run_together() {
    let check = |one: &str, two: &str, together: bool| {
        let mut place = place(10);
        assert_eq!(place.admit(touching(1, one)).verdict, Verdict::Start);
        let expected = if together { Verdict::Start } else { KEYS };
        assert_eq!(place.admit(touching(2, two)).verdict, expected, "{one} | {two}");
        let starts: &[RunId] = if together { &[] } else { &[run(2)] };
        assert_eq!(place.release(run(1)).starts, starts, "{one} | {two}");
        assert_eq!(place.release(run(2)).starts, []);
        assert_eq!((place.started(), place.waiting(), place.for_keys), (0, 0, 0));
        assert!(place.jobs.is_empty() && place.runs.is_empty() && place.footprints.is_empty());
    };
    check("r a:x", "r a:x", true);
    check("r a:x", "w a:x", false);
    check("w a:x", "r a:x", false);
    check("w a:x", "w a:x", false);
    check("c a:x", "c a:x", false);
    check("c a:x", "r a:x", false);
    check("w a:x", "w a:y", true);
    check("w a:x/", "w a:x/y", false);
    check("w a:x/y", "r a:x/", false);
    check("w a:x/y", "w a:x/z", true);
    check("w a:/", "r a:x", false);
    check("w a:/", "w b:x", true);
    check("r a:x, w b:x", "w b:y, r b:x", false);
    check("2 gpu", "2 gpu", true);
    check("3 gpu", "2 gpu", false);
    check("w a:x, w a:x/y, r a:x", "r b:x", true);
}

#[test]
fn a_refusal_leaves_no_trace() {
    let mut place = place(10);
    place.admit(touching(1, "w a:x"));
    let skips =
        |raw, text| changed(touching(raw, text), |footprint| footprint.on_conflict = OnConflict::Skip);
    let admission = place.admit(skips(2, "w b:x, w a:x, w c:x, 2 gpu"));
    assert_eq!(admission.verdict, Verdict::Skip(SkipReason::Conflict));
    let blocker = admission.blocker.unwrap();
    assert_eq!((blocker.holder, blocker.wanted), (run(1), Wanted::Key(Access::Write, "a:x".into())));
    for (raw, text) in [(3, "w b:x"), (4, "w c:x"), (5, "4 gpu")] {
        assert_eq!(place.admit(touching(raw, text)).verdict, Verdict::Start, "{text}");
    }
    assert_eq!(place.jobs.len(), 4);
}

#[test]
fn a_free_run_passes_a_blocked_one_until_that_has_a_ticket() {
    let mut place = place(10);
    place.pass(0);
    place.admit(touching(1, "r a:x"));
    assert_eq!(place.admit(touching(2, "w a:x")).verdict, KEYS);
    // Readers pass the writer for thirty seconds, then no more.
    assert_eq!(place.admit(touching(3, "r a:x")).verdict, Verdict::Start);
    place.pass(29_999);
    assert_eq!(place.admit(touching(4, "r a:x")).verdict, Verdict::Start);
    place.pass(30_000);
    assert!(place.why(run(2)).unwrap().ticket);
    let admission = place.admit(touching(5, "r a:x"));
    assert_eq!(admission.verdict, KEYS);
    let blocker = admission.blocker.unwrap();
    assert_eq!((blocker.holder, blocker.in_line), (run(2), true));
    for raw in [1, 3] {
        assert_eq!(place.release(run(raw)).starts, []);
    }
    assert_eq!(place.release(run(4)).starts, [run(2)]);
    assert_eq!(place.release(run(2)).starts, [run(5)]);
}

#[test]
fn four_lost_tries_give_a_ticket() {
    let mut place = place(10);
    place.admit(touching(1, "r a:x"));
    assert_eq!(place.admit(touching(9, "w a:x, w b:x")).verdict, KEYS);
    // Whenever one of its keys is free the other is taken.
    for (raw, text) in [(2, "r b:x"), (3, "r a:x"), (4, "r b:x")] {
        assert_eq!(place.admit(touching(raw, text)).verdict, Verdict::Start);
        assert_eq!(place.release(run(raw - 1)).starts, []);
    }
    let why = place.why(run(9)).unwrap();
    assert_eq!((why.tries, why.ticket, why.blocker.unwrap().holder), (4, true, run(4)));
    assert_eq!(place.admit(touching(5, "r a:x")).verdict, KEYS);
    assert_eq!(place.release(run(4)).starts, [run(9)]);
}

#[test]
fn ordered_means_a_ticket_at_once() {
    let mut place = place(10);
    let ordered = |raw, text| changed(touching(raw, text), |footprint| footprint.ordered = true);
    place.admit(ordered(1, "r a:x"));
    assert_eq!(place.admit(ordered(2, "w a:x")).verdict, KEYS);
    assert_eq!(place.admit(ordered(3, "r a:x")).verdict, KEYS);
    assert_eq!(place.release(run(1)).starts, [run(2)]);
    assert_eq!(place.release(run(2)).starts, [run(3)]);
}

#[test]
fn the_more_urgent_waiter_goes_first() {
    let mut place = place(10);
    place.admit(touching(1, "w a:x"));
    place.admit(touching(2, "w a:x"));
    place.admit(Candidate { priority: 5, ..touching(3, "w a:x") });
    place.admit(Candidate { due: -7, ..touching(4, "w a:x") });
    assert_eq!(place.release(run(1)).starts, [run(3)]);
    assert_eq!(place.release(run(3)).starts, [run(4)]);
    assert_eq!(place.release(run(4)).starts, [run(2)]);
}

#[test]
fn a_run_that_waits_for_its_keys_holds_its_job() {
    for (overlap, expected) in [
        (Overlap::Skip, Verdict::Skip(SkipReason::Overlap)),
        (Overlap::Wait, Verdict::Wait(WaitReason::Job(run(2)))),
        (Overlap::Latest, Verdict::Wait(WaitReason::Job(run(2)))),
        (Overlap::Replace, Verdict::Wait(WaitReason::Job(run(2)))),
        (Overlap::Allow, KEYS),
    ] {
        let mut place = place(10);
        place.admit(touching(1, "w a:x"));
        let same_job = |raw| Candidate { job: JobId(7), overlap, ..touching(raw, "w a:x") };
        assert_eq!(place.admit(same_job(2)).verdict, KEYS);
        let admission = place.admit(same_job(3));
        assert_eq!(admission.verdict, expected, "{overlap:?}");
        let stop: &[RunId] = if overlap == Overlap::Replace { &[run(2)] } else { &[] };
        assert_eq!(admission.stop, stop);
        assert_eq!(place.release(run(1)).starts, [run(2)]);
        let freed = place.release(run(2));
        let starts: &[RunId] = if overlap == Overlap::Skip { &[] } else { &[run(3)] };
        assert_eq!(freed.starts, starts, "{overlap:?}");
        place.release(run(3));
        assert_eq!((place.started(), place.waiting()), (0, 0));
    }
}

#[test]
fn whose_turn_has_come_still_needs_its_keys() {
    let mut place = place(10);
    let mut admit = |raw, job, on_conflict| {
        let candidate = changed(touching(raw, "w a:x"), |footprint| footprint.on_conflict = on_conflict);
        place.admit(Candidate { job: JobId(job), overlap: Overlap::Wait, ..candidate }).verdict
    };
    assert_eq!(admit(1, 7, OnConflict::Wait), Verdict::Start);
    assert_eq!(admit(2, 7, OnConflict::Skip), HELD);
    assert_eq!(admit(3, 7, OnConflict::Wait), HELD);
    assert_eq!(admit(4, 8, OnConflict::Wait), KEYS);
    // The key goes to who waited for it; the next of the job is skipped, the one behind it waits for the key.
    let freed = place.release(run(1));
    assert_eq!(freed.starts, [run(4)]);
    assert_eq!(freed.skips.len(), 1);
    assert_eq!((freed.skips[0].0, freed.skips[0].1), (run(2), SkipReason::Conflict));
    assert_eq!((freed.waits[0].0, freed.waits[0].1), (run(3), WaitReason::Footprint));
    assert_eq!(place.release(run(4)).starts, [run(3)]);
    place.release(run(3));
    assert!(place.jobs.is_empty() && place.runs.is_empty() && place.footprints.is_empty());
}

#[test]
fn the_wait_room_is_bounded_for_keys_too() {
    let mut place = place(10);
    place.admit(touching(1, "w a:x"));
    let same_job = |raw| Candidate { job: JobId(77), overlap: Overlap::Allow, ..touching(raw, "w a:x") };
    for raw in 2..5 {
        assert_eq!(place.admit(same_job(raw)).verdict, KEYS);
    }
    assert_eq!(place.admit(same_job(5)).verdict, Verdict::Skip(SkipReason::WaitRoomFull));
    for raw in 6..13 {
        assert_eq!(place.admit(touching(raw, "w a:x")).verdict, KEYS);
    }
    assert_eq!(place.admit(touching(13, "w a:x")).verdict, Verdict::Skip(SkipReason::WaitRoomFull));
    assert_eq!(place.waiting(), 10);
    // Who waits for nothing may still start.
    assert_eq!(place.admit(touching(14, "w b:x")).verdict, Verdict::Start);
}

#[test]
fn keys_and_slots_meet() {
    let mut place = place(1);
    assert_eq!(place.admit(touching(1, "w a:x")).verdict, Verdict::Start);
    assert_eq!(place.admit(touching(2, "w a:x")).verdict, KEYS);
    assert_eq!(place.admit(touching(3, "w b:x")).verdict, Verdict::Wait(WaitReason::Slot));
    // It waits for a slot and has its key.
    assert_eq!(place.admit(touching(4, "w b:x")).verdict, KEYS);
    assert_eq!(place.waiting_for_slot_and_footprint(), (1, 2));
    assert_eq!(place.release(run(1)).starts, [run(2)]);
    // Withdrawn in the line for a slot, it gives its key to the next.
    assert_eq!(place.release(run(3)).starts, []);
    assert_eq!(place.why(run(4)).unwrap().reason, WaitReason::Slot);
    assert_eq!(place.release(run(2)).starts, [run(4)]);
    place.release(run(4));
    assert_eq!((place.started(), place.waiting()), (0, 0));
    assert!(place.footprints.is_empty());
}

#[test]
fn what_ran_before_a_restart_holds_again() {
    let mut place = place(10);
    let before = touching(1, "w a:x, 3 gpu");
    place.set_capacity("gpu", 2);
    assert_eq!(place.restore(before.run, before.job, before.footprint), None);
    let over = touching(9, "r a:x");
    assert_eq!(place.restore(over.run, over.job, over.footprint), Some(run(1)));
    assert_eq!(place.admit(touching(2, "r a:x")).verdict, KEYS);
    assert_eq!(place.admit(touching(3, "2 gpu")).verdict, KEYS);
    assert_eq!(place.release(run(9)).starts, []);
    assert_eq!(place.release(run(1)).starts, [run(2), run(3)]);
    assert_eq!(place.capacity("gpu"), Some(2));
}

#[test]
fn a_pool_may_grow_and_shrink() {
    let mut place = place(10);
    place.admit(touching(1, "3 gpu"));
    assert_eq!(place.admit(touching(2, "3 gpu")).verdict, KEYS);
    assert_eq!(place.set_capacity("gpu", 6).starts, [run(2)]);
    // Nothing more than there is, ever.
    assert_eq!(place.set_capacity("gpu", 2).starts, []);
    assert_eq!(place.admit(touching(3, "3 gpu")).verdict, Verdict::Skip(SkipReason::Capacity));
    assert_eq!(place.admit(touching(4, "2 gpu")).verdict, KEYS);
    assert_eq!(place.release(run(1)).starts, []);
    assert_eq!(place.release(run(2)).starts, [run(4)]);
}

#[test]
fn what_is_in_the_way_is_named() {
    let check = |one: &str, two: &str, expected: (Wanted, bool)| {
        let mut place = place(10);
        place.admit(touching(1, one));
        place.admit(touching(2, two));
        let blocker = place.why(run(2)).unwrap().blocker.unwrap();
        assert_eq!((blocker.wanted, blocker.in_part), expected, "{one} | {two}");
        assert_eq!(blocker.holder, run(1));
    };
    let key = |access, key: &str| Wanted::Key(access, key.into());
    check("w a:x", "r b:x, r a:x", (key(Access::Read, "a:x"), false));
    check("w s3://b/p/", "c s3://b/p/q", (key(Access::Claim, "s3://b/p/q"), false));
    check("r s3://b/p/q", "w s3://b/p/", (key(Access::Write, "s3://b/p"), true));
    check("3 gpu", "2 gpu", (Wanted::Units(2, "gpu".into()), false));
}

#[test]
fn keys_that_nobody_uses_are_forgotten() {
    let mut place = place(10);
    for raw in 1..20_000 {
        assert_eq!(place.admit(touching(raw, &format!("w a:{raw}/b"))).verdict, Verdict::Start);
        place.release(run(raw));
    }
    assert!(place.footprints.keys() < 5_000, "{}", place.footprints.keys());
}
