//! The rules that decide, without a store.

use std::collections::{BTreeMap, BTreeSet};

use cadran_fuzz::rules::build::{self, BuildPick, Enqueued};
use cadran_fuzz::rules::detect::{detect, fresh};
use cadran_fuzz::rules::forecast::forecast;
use cadran_fuzz::rules::schedule::{self, Facts};
use cadran_fuzz::{BuildQueue, Commit, CommitState, Entry, FileFilter, Files, Limits, Overload, Schedule};

use crate::support::{START, commit, hash, number};

fn hashes(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|number| hash(*number).to_string()).collect()
}

fn queue(waiting: &[u32], built: &[u32], failed: &[u32]) -> BuildQueue {
    let mut queue = BuildQueue::default();
    (queue.queue, queue.built, queue.failed) = (hashes(waiting), hashes(built), hashes(failed));
    queue
}

/// `1:0 2:1` is commit 1, never fuzzed, then commit 2, fuzzed once.
fn plan(text: &str) -> Schedule {
    let entry = |word: &str| {
        let (number, count) = word.split_once(':').unwrap();
        Entry::new(hash(number.parse().unwrap()).to_string(), count.parse().unwrap())
    };
    Schedule { entries: text.split_whitespace().map(entry).collect() }
}

fn shown(plan: &Schedule) -> String {
    let entry = |entry: &Entry| format!("{}:{}", number(&entry.hash), entry.fuzz_count);
    plan.entries.iter().map(entry).collect::<Vec<_>>().join(" ")
}

fn set(numbers: &[u32]) -> BTreeSet<String> {
    hashes(numbers).into_iter().collect()
}

fn numbers(hashes: &[cadran_fuzz::CommitHash]) -> Vec<String> {
    hashes.iter().map(|hash| number(hash.as_str())).collect()
}

#[test]
fn rule_08_matching_commits_are_queued_oldest_first() {
    let commits = [
        commit(1, &["a.cpp"]),
        commit(2, &["README.md", "notes.cpp.md"]),
        commit(3, &["docs/x.md", "src/deep/B.HPP"]),
        commit(4, &[]),
    ];
    let detected = detect(&commits, &FileFilter::default(), None, |_| false);
    assert_eq!(numbers(&detected.queue), ["1", "3"]);
    assert_eq!(detected.other_files, 2);
    assert_eq!(detected.checked, Some(hash(4)));
}

#[test]
fn rule_09_nothing_is_queued_twice() {
    let commits = [1, 2, 2, 3].map(|number| commit(number, &["a.c"]));
    let known = |text: &str| text == hash(1).as_str();
    let detected = detect(&commits, &FileFilter::default(), None, known);
    assert_eq!(numbers(&detected.queue), ["2", "3"]);
    assert_eq!(detected.known, 2);
}

#[test]
fn h08_a_commit_that_cannot_be_read_stays_pending() {
    let unreadable = |number| Commit { files: Files::Unreadable("timeout".into()), ..commit(number, &[]) };
    let check = |commits: &[Commit], queued: &[&str], checked: Option<u32>| {
        let detected = detect(commits, &FileFilter::default(), None, |_| false);
        assert_eq!(numbers(&detected.queue), queued);
        assert_eq!(detected.checked, checked.map(hash));
        assert_eq!(detected.pending.is_some(), commits.len() != queued.len());
    };
    check(&[commit(1, &["a.c"]), unreadable(2), commit(3, &["a.c"])], &["1"], Some(1));
    check(&[unreadable(1), commit(2, &["a.c"])], &[], None);
    check(&[commit(1, &["a.c"])], &["1"], Some(1));
    let detected = fresh(&[commit(2, &["a.c"]), unreadable(1)], &FileFilter::default(), 4, |_| false);
    assert_eq!((detected.queue.len(), detected.checked), (0, None));
}

#[test]
fn rule_06_only_today_is_judged_by_committer_date_in_utc() {
    let day = 24 * 60 * 60 * 1000;
    let at = |number, committed_at| Commit { committed_at, ..commit(number, &["a.c"]) };
    let commits = [
        at(1, START - 1),
        at(2, START),
        at(3, START + day - 1),
        at(4, START + day),
        // Dates beyond the calendar happen.
        at(5, i64::MAX),
    ];
    let detected = detect(&commits, &FileFilter::default(), Some(START + 5), |_| false);
    assert_eq!(numbers(&detected.queue), ["2", "3"]);
    assert_eq!(numbers(&detected.not_today), ["1", "4", "5"]);
    // H5: by default the day does not matter.
    assert_eq!(detect(&commits, &FileFilter::default(), None, |_| false).queue.len(), 5);
}

#[test]
fn h09_h10_a_fresh_start_takes_the_newest_four() {
    let newest: Vec<Commit> = (1..=9)
        .rev()
        .map(|number| commit(number, if number % 3 == 0 { &["a.md"] } else { &["a.c"] }))
        .collect();
    let detected = fresh(&newest, &FileFilter::default(), 4, |_| false);
    assert_eq!(numbers(&detected.queue), ["4", "5", "7", "8"]);
    assert_eq!(detected.checked, Some(hash(9)));
    // Fewer, when some of them are known; never older ones instead.
    let detected = fresh(&newest, &FileFilter::default(), 4, |text| text == hash(5).as_str());
    assert_eq!(numbers(&detected.queue), ["4", "7", "8"]);
}

fn claimed_hashes(pick: BuildPick) -> String {
    match pick {
        BuildPick::Take { hash, covers } => {
            let covers: Vec<String> = covers.iter().map(|hash| number(hash)).collect();
            format!("{} covers [{}]", number(hash.as_str()), covers.join(" "))
        }
        BuildPick::Nothing => "nothing".into(),
        BuildPick::Hold { waiting } => format!("hold {waiting}"),
    }
}

#[test]
fn rule_11_the_first_unclaimed_commit_is_built() {
    let check = |waiting: &[u32], claimed: &[u32], expected: &str| {
        let pick = build::pick(&queue(waiting, &[], &[]), &set(claimed), Overload::Fair, 0, 4);
        assert_eq!(claimed_hashes(pick), expected);
    };
    check(&[1, 2, 3], &[], "1 covers []");
    check(&[1, 2, 3], &[1], "2 covers []");
    check(&[1, 2, 3], &[2, 1], "3 covers []");
    check(&[1], &[1], "nothing");
    check(&[], &[], "nothing");
    let mut typed = queue(&[], &[], &[]);
    typed.queue.push("abc1234".into());
    assert_eq!(build::pick(&typed, &set(&[]), Overload::Fair, 0, 4), BuildPick::Nothing);
}

#[test]
fn rule_14_built_and_failed_leave_the_queue() {
    let before = queue(&[1, 2], &[3], &[4]);
    let built = build::built(&before, hash(1).as_str(), &[]).unwrap();
    assert_eq!(built, queue(&[2], &[3, 1], &[4]));
    let failed = build::failed(&before, hash(1).as_str(), &Limits::default()).unwrap();
    assert_eq!(failed, queue(&[2], &[3], &[4, 1]));
    // Saying it again changes nothing, and neither does a commit that was cancelled.
    assert_eq!(build::built(&built, hash(1).as_str(), &[]), None);
    assert_eq!(build::failed(&failed, hash(1).as_str(), &Limits::default()), None);
}

#[test]
fn h13_adding_a_failed_commit_again_takes_it_out_of_failed() {
    let (answer, next) = build::enqueue(&queue(&[1], &[], &[2, 3]), false, hash(2).as_str(), false);
    let (next, event) = next.unwrap();
    assert_eq!((answer, next), (Enqueued::Added, queue(&[1, 2], &[], &[3])));
    assert_eq!((event.before, event.after), (CommitState::Failed, CommitState::Queue));
}

#[test]
fn h15_failed_keeps_the_newest_thousand() {
    let mut full = queue(&[5000], &[], &[]);
    full.failed = (0..1000).map(|number| hash(number).to_string()).collect();
    let next = build::failed(&full, hash(5000).as_str(), &Limits::default()).unwrap();
    assert_eq!(next.failed.len(), 1000);
    assert_eq!(number(&next.failed[0]), "1");
    assert_eq!(number(&next.failed[999]), "5000");
}

#[test]
fn rule_16_h16_handing_over_twice_changes_nothing() {
    let (once, events) = schedule::append(&plan("1:2"), &hashes(&[2, 3])).unwrap();
    assert_eq!(shown(&once), "1:2 2:0 3:0");
    assert_eq!(events.len(), 2);
    assert_eq!(schedule::append(&once, &hashes(&[2, 3])), None);
}

/// The schedule after a pass, and the words of what happened.
fn tidied(before: &str, gone: &[u32], pinned: &[u32]) -> (String, String) {
    let facts = Facts { gone: set(gone), pinned: set(pinned) };
    let limits = Limits { schedule_max: 8, ..Limits::default() };
    match schedule::tidy(&plan(before), &facts, &limits) {
        None => (before.into(), String::new()),
        Some((after, events)) => {
            let word = |event: &cadran_fuzz::Event| format!("{} {}", event.what, number(&event.hash));
            (shown(&after), events.iter().map(word).collect::<Vec<_>>().join(", "))
        }
    }
}

fn check_tidy(before: &str, gone: &[u32], pinned: &[u32], after: &str, said: &str) {
    assert_eq!(tidied(before, gone, pinned), (after.into(), said.into()), "{before}");
}

#[test]
fn rule_17_h19_entries_without_binaries_go_and_unfuzzed_ones_are_said() {
    check_tidy("1:1 2:0 3:0", &[1, 2], &[], "3:0", "expired 1, expired_unfuzzed 2");
    check_tidy("1:1 2:0 3:0", &[1, 2], &[2], "2:0 3:0", "expired 1");
    check_tidy("1:1", &[], &[], "1:1", "");
}

#[test]
fn rule_18_h21_no_rule_of_size_goes_below_four() {
    check_tidy("1:1 2:1 3:1 4:1", &[], &[], "1:1 2:1 3:1 4:1", "");
    check_tidy("1:3 2:3", &[], &[], "1:3 2:3", "");
    // What has no binaries goes all the same.
    check_tidy("1:1 2:1 3:1 4:1", &[4], &[], "1:1 2:1 3:1", "expired 4");
}

#[test]
fn rule_19_h22_above_four_the_oldest_fuzzed_go_however_many_came() {
    check_tidy("1:1 2:0 3:2 4:0 5:0", &[], &[], "2:0 3:2 4:0 5:0", "trimmed 1");
    check_tidy("1:1 2:2 3:1 4:1 5:0 6:0 7:0", &[], &[], "4:1 5:0 6:0 7:0", "trimmed 1, trimmed 2, trimmed 3");
    check_tidy("1:1 2:2 3:1 4:1 5:0", &[], &[1], "1:1 3:1 4:1 5:0", "trimmed 2");
}

#[test]
fn h23_unfuzzed_entries_stay_up_to_the_bound() {
    check_tidy("1:0 2:0 3:0 4:0 5:0 6:0", &[], &[], "1:0 2:0 3:0 4:0 5:0 6:0", "");
    check_tidy(
        "1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:0 10:0",
        &[],
        &[1],
        "1:0 4:0 5:0 6:0 7:0 8:0 9:0 10:0",
        "expired_unfuzzed 2, expired_unfuzzed 3",
    );
}

#[test]
fn rule_20_the_least_fuzzed_then_the_oldest_is_fuzzed() {
    let check = |text: &str, overload, claimed: &[u32], dead: &[(u32, u32)], expected: &str| {
        let plan = plan(text);
        let deaths: BTreeMap<String, u32> =
            dead.iter().map(|(commit, deaths)| (hash(*commit).to_string(), *deaths)).collect();
        let order = schedule::order(&plan, overload, &set(claimed), &deaths, &Limits::default());
        let order: Vec<String> = order.iter().map(|entry| number(&entry.hash)).collect();
        assert_eq!(order.join(" "), expected, "{text}");
    };
    use Overload::*;
    check("1:2 2:0 3:1 4:0", Fair, &[], &[], "2 4 3 1");
    check("1:2 2:0 3:1 4:0", Coalesce, &[], &[], "2 4 3 1");
    check("1:0 2:0 3:1", Fair, &[1], &[], "2 3");
    check("", Fair, &[], &[], "");
    // Rule 29: newest first.
    check("1:2 2:0 3:1 4:0", NewestFirst, &[], &[], "4 2 3 1");
    // H27: who died three times before fuzzing stands behind its equals, and no further back.
    check("1:0 2:0 3:1", Fair, &[], &[(1, 2)], "1 2 3");
    check("1:0 2:0 3:1", Fair, &[], &[(1, 3)], "2 1 3");
    check("1:0 2:0 3:1", Fair, &[], &[(1, 6), (2, 3)], "2 1 3");
}

#[test]
fn rule_21_after_a_run_the_count_rises_and_the_fuzzed_one_may_leave() {
    let check = |before: &str, raise_to: u64, after: Option<&str>| {
        let done = schedule::fuzzed(&plan(before), hash(1).as_str(), raise_to, &Limits::default());
        assert_eq!(done.map(|(plan, _)| shown(&plan)).as_deref(), after, "{before}");
    };
    check("1:0 2:0 3:0 4:0", 1, Some("1:1 2:0 3:0 4:0"));
    check("1:0 2:0 3:0 4:0 5:0", 1, Some("2:0 3:0 4:0 5:0"));
    check("1:0 2:1 3:1 4:1 5:1", 1, Some("2:1 3:1 4:1 5:1"));
    // H25: somebody was fuzzed twice, so it stays.
    check("1:0 2:2 3:0 4:0 5:0", 1, Some("1:1 2:2 3:0 4:0 5:0"));
    check("1:1 2:0 3:0 4:0 5:0", 2, Some("1:2 2:0 3:0 4:0 5:0"));
    // Done before, or gone.
    check("1:1 2:0 3:0 4:0 5:0", 1, None);
    check("2:0", 1, None);
}

#[test]
fn h25_the_trim_of_every_pass_goes_on_where_rule_21_is_dead() {
    let (stuck, _) =
        schedule::fuzzed(&plan("1:0 2:2 3:1 4:1 5:1"), hash(1).as_str(), 1, &Limits::default()).unwrap();
    assert_eq!(shown(&stuck), "1:1 2:2 3:1 4:1 5:1");
    check_tidy(&shown(&stuck), &[], &[], "2:2 3:1 4:1 5:1", "trimmed 1");
}

#[test]
fn rule_25_h29_front_puts_a_commit_first() {
    let check = |before: BuildQueue, scheduled, front, answer, after: Option<BuildQueue>| {
        let (said, next) = build::enqueue(&before, scheduled, hash(9).as_str(), front);
        assert_eq!((said, next.map(|(queue, _)| queue)), (answer, after));
    };
    check(queue(&[1], &[], &[]), false, true, Enqueued::AddedInFront, Some(queue(&[9, 1], &[], &[])));
    check(queue(&[1, 9], &[], &[]), false, true, Enqueued::AddedInFront, Some(queue(&[9, 1], &[], &[])));
    check(queue(&[1, 9], &[], &[]), false, false, Enqueued::AlreadyQueued, None);
    check(queue(&[9, 1], &[], &[]), false, true, Enqueued::AlreadyQueued, None);
    check(queue(&[], &[9], &[]), false, true, Enqueued::AlreadyBuilt, None);
    check(queue(&[], &[], &[]), true, true, Enqueued::AlreadyScheduled, None);
}

#[test]
fn rule_29_newest_first_builds_the_newest() {
    let pick = build::pick(&queue(&[1, 2, 3], &[], &[]), &set(&[3]), Overload::NewestFirst, 0, 4);
    assert_eq!(claimed_hashes(pick), "2 covers []");
}

#[test]
fn rule_29_coalesce_lets_neighbours_share_a_build() {
    let check = |waiting: &[u32], claimed: &[u32], unfuzzed: usize, expected: &str| {
        let pick = build::pick(&queue(waiting, &[], &[]), &set(claimed), Overload::Coalesce, unfuzzed, 4);
        assert_eq!(claimed_hashes(pick), expected, "{waiting:?} {unfuzzed}");
    };
    // A day of fuzzing takes four: below that everybody has a build of its own.
    check(&[1], &[], 0, "1 covers []");
    check(&[1, 2, 3, 4], &[], 0, "1 covers []");
    check(&[1, 2], &[], 2, "1 covers []");
    check(&[1, 2, 3, 4, 5, 6, 7, 8], &[], 0, "2 covers [1]");
    check(&[1, 2, 3], &[], 3, "3 covers [1 2]");
    check(&[1, 2, 3], &[1], 3, "3 covers [2]");
    check(&[1, 2, 3], &[], 4, "hold 3");
    check(&[], &[], 9, "nothing");
    let next = build::built(&queue(&[1, 2, 3, 4], &[], &[]), hash(3).as_str(), &hashes(&[1, 2])).unwrap();
    assert_eq!(next, queue(&[4], &[3], &[]));
    // When it does not build, those it would have stood for stay.
    let next = build::failed(&queue(&[1, 2, 3], &[], &[]), hash(3).as_str(), &Limits::default()).unwrap();
    assert_eq!(next, queue(&[1, 2], &[], &[3]));
}

#[test]
fn rule_29_the_forecast_says_what_gives() {
    let limits = Limits::default();
    let calm = forecast(Overload::Fair, &limits, 4, 3.0, 2, 0);
    assert_eq!((calm.full_in_days, calm.expired_unfuzzed_per_day), (None, 0.0));
    let fair = forecast(Overload::Fair, &limits, 4, 8.0, 20, 4);
    assert_eq!((fair.full_in_days, fair.expired_unfuzzed_per_day), (Some(10.0), 4.0));
    assert_eq!(fair.wait_days, 6.0);
    let shared = forecast(Overload::Coalesce, &limits, 4, 8.0, 20, 4);
    assert_eq!((shared.full_in_days, shared.expired_unfuzzed_per_day), (None, 0.0));
    assert_eq!(shared.commits_per_run, 2.0);
    assert!(forecast(Overload::Fair, &limits, 0, 0.0, 0, 0).wait_days == 0.0);
}
