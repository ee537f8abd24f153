use super::*;

fn place(slots: usize) -> Place {
    Place::new(Limits { slots, waiting_per_job_max: 3, waiting_max: 10 })
}

fn run(raw: u64) -> RunId {
    RunId::from_raw(raw)
}

fn candidate(raw: u64, job: u32, overlap: Overlap) -> Candidate {
    let trigger = Trigger::Schedule;
    Candidate { run: run(raw), job: JobId(job), due: raw as Millis, trigger, priority: 0, overlap }
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
    assert_eq!(place.release(run(1)), [run(2)]);
    assert_eq!(place.release(run(3)), []); // withdrawn while waiting
    assert_eq!(place.release(run(2)), [run(4)]);
    assert_eq!(place.release(run(4)), []);
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
    assert_eq!(place.release(run(1)), [run(3)]);
    assert_eq!(place.release(run(3)), [run(2)]);
    assert_eq!(place.release(run(2)), []);
    assert_eq!((place.started(), place.waiting()), (0, 0));
}

#[test]
fn a_backlog_under_skip_steps_aside_only_for_others() {
    let mut place = place(10);
    let of_backlog = |raw| Candidate { trigger: Trigger::CatchUp, ..candidate(raw, 7, Overlap::Skip) };
    assert_eq!(place.admit(of_backlog(1)).verdict, Verdict::Start);
    assert_eq!(place.admit(of_backlog(2)).verdict, HELD);
    assert_eq!(place.release(run(1)), [run(2)]);
    place.release(run(2));
    assert_eq!(place.admit(candidate(3, 7, Overlap::Skip)).verdict, Verdict::Start);
    assert_eq!(place.admit(of_backlog(4)).verdict, Verdict::Skip(SkipReason::Overlap));
}

#[test]
fn a_restart_stops_what_is_active_under_any_policy() {
    for overlap in [Overlap::Allow, Overlap::Skip, Overlap::Wait, Overlap::Latest, Overlap::Replace] {
        let mut place = place(10);
        place.admit(candidate(1, 7, overlap));
        let restart = Candidate { trigger: Trigger::Restart, ..candidate(2, 7, overlap) };
        let admission = place.admit(restart);
        assert_eq!((admission.verdict, admission.stop), (HELD, vec![run(1)]), "{overlap:?}");
        assert_eq!(place.release(run(1)), [run(2)]);
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
fn a_backlog_does_not_replace_its_own() {
    let mut place = place(10);
    let of_backlog = |raw| Candidate { trigger: Trigger::CatchUp, ..candidate(raw, 7, Overlap::Replace) };
    assert_eq!(place.admit(of_backlog(1)).verdict, Verdict::Start);
    assert_eq!(place.admit(of_backlog(2)), HELD.into());
    let live = place.admit(candidate(3, 7, Overlap::Replace));
    assert_eq!((live.stop, live.displaced), (vec![run(1)], vec![run(2)]));
}

#[test]
fn a_freed_slot_goes_to_the_line_before_the_same_job() {
    let mut place = place(1);
    for raw in 1..=3 {
        place.admit(candidate(raw, 7, Overlap::Wait));
    }
    place.admit(Candidate { due: 0, ..candidate(4, 8, Overlap::Wait) });
    assert_eq!(place.release(run(1)), [run(4)]);
    assert_eq!(place.release(run(4)), [run(2)]);
    assert_eq!(place.release(run(2)), [run(3)]);
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
    assert_eq!(place.release(run(1)), []);
    assert_eq!(place.release(run(2)), [run(3), run(4), run(5)]);
    assert_eq!((place.started(), place.waiting()), (3, 0));
}
