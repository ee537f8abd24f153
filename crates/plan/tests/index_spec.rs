//! The testing strategy of the run index, point by point.

use cadran_dev::allocation::{CountingAllocator, allocations};
use cadran_plan::index::{Buffers, Index, IndexCell, Run, Window};

const HOUR: i64 = 3_600_000;

fn index(runs: &[(i64, u32)], from: i64, to: i64) -> Index {
    let runs: Vec<Run> = runs.iter().map(|&(due, job)| Run { due, job }).collect();
    Index::from_runs(&runs, Window::new(from, to), &mut Buffers::default())
}

fn all(index: &Index) -> Vec<(i64, u32)> {
    index.into_iter().collect()
}

/// The jobs of one second, which a fresh index has in one piece.
fn jobs_at(index: &Index, at: i64) -> &[u32] {
    index.second(at).as_slice().unwrap()
}

#[test]
fn build_from_empty() {
    for index in [index(&[], 0, HOUR), Index::default(), index(&[(5, 1)], 10, 10), index(&[(5, 1)], 10, 0)] {
        assert_eq!(index.len(), 0);
        assert!(index.is_empty());
        assert_eq!(index.peek(), None);
        assert_eq!(index.first_due(), None);
        assert_eq!(all(&index), []);
        assert!(index.query(i64::MIN, i64::MAX).is_empty());
        assert_eq!(jobs_at(&index, 0), []);
        assert_eq!(index.counts_per_minute(0, 3), [0, 0, 0]);
    }
}

#[test]
fn build_from_sorted_data() {
    let runs: Vec<(i64, u32)> = (0..3600).flat_map(|s| [(s * 1000, 4), (s * 1000, 9)]).collect();
    assert_eq!(all(&index(&runs, 0, HOUR)), runs);
}

#[test]
fn build_from_unsorted_data() {
    let runs = [(7_000, 2), (0, 9), (7_000, 1), (1, 3), (0, 8), (6_999, 1), (7_000, 2), (1, 3)];
    let index = index(&runs, 0, HOUR);
    assert_eq!(all(&index), [(0, 8), (0, 9), (1, 3), (6_999, 1), (7_000, 1), (7_000, 2)]);
    assert_eq!(index.len(), 6);
}

#[test]
fn build_leaves_out_what_lies_outside_the_window() {
    let runs = [(-1, 1), (0, 1), (999, 1), (1_000, 1), (1_001, 1), (2_000, 1)];
    assert_eq!(all(&index(&runs, 0, 1_001)), [(0, 1), (999, 1), (1_000, 1)]);
    assert_eq!(all(&index(&runs, 1, 1_000)), [(999, 1)]);
}

#[test]
fn build_before_the_epoch() {
    let runs = [(-600_000, 1), (-1_000, 2), (-999, 3), (-1, 4), (0, 5)];
    let index = index(&runs, -HOUR, HOUR);
    assert_eq!(all(&index), runs);
    assert_eq!(jobs_at(&index, -1_000), [2]);
}

#[test]
fn build_few_runs_over_a_long_window() {
    let day = 24 * HOUR;
    let runs = [(0, 1), (40 * day, 2), (40 * day, 3), (300 * day + 5, 1), (399 * day, 7)];
    let index = index(&runs, 0, i64::MAX);
    assert_eq!(index.window().to(), Window::SPAN_MS_MAX);
    assert_eq!(all(&index), runs);
    assert_eq!(index.query(40 * day, 300 * day).iter().collect::<Vec<_>>(), [(40 * day, 2), (40 * day, 3)]);
}

#[test]
fn query_exact_boundaries() {
    let index = index(&[(1_000, 1), (1_500, 2), (2_000, 3), (600_000, 4), (600_001, 5)], 0, HOUR);
    let cases: &[(i64, i64, &[u32])] = &[
        (1_000, 1_000, &[]),
        (1_000, 1_001, &[1]),
        (1_001, 1_500, &[]),
        (1_001, 1_501, &[2]),
        (1_500, 2_000, &[2]),
        (1_500, 2_001, &[2, 3]),
        (999, 2_000, &[1, 2]),
        (2_001, 600_000, &[]),
        (2_000, 600_001, &[3, 4]),
        (600_000, 600_002, &[4, 5]),
        (600_001, 600_002, &[5]),
        (2_000, 1_000, &[]),
    ];
    for &(start, end, expected) in cases {
        let runs = index.query(start, end);
        assert_eq!(runs.iter().map(|(_, job)| job).collect::<Vec<_>>(), expected, "[{start}, {end})");
        assert_eq!(runs.len(), expected.len(), "[{start}, {end})");
        assert_eq!(runs.is_empty(), expected.is_empty(), "[{start}, {end})");
    }
}

#[test]
fn query_with_no_results() {
    let index = index(&[(1_000, 1), (3_000_000, 1)], 0, HOUR);
    for (start, end) in
        [(1_001, 3_000_000), (-HOUR, 0), (HOUR, 2 * HOUR), (i64::MIN, i64::MIN), (i64::MAX, i64::MAX)]
    {
        assert!(index.query(start, end).is_empty());
        assert_eq!(index.query(start, end).first(), None);
    }
}

#[test]
fn query_with_all_results() {
    let runs: Vec<(i64, u32)> = (0..60).map(|m| (m * 60_000, m as u32)).collect();
    let index = index(&runs, 0, HOUR);
    assert_eq!(index.query(i64::MIN, i64::MAX).iter().collect::<Vec<_>>(), runs);
    assert_eq!(index.query(i64::MIN, i64::MAX).len(), 60);
    assert_eq!(index.query(0, HOUR).slices().flatten().count(), 60);
}

#[test]
fn query_borrows_contiguous_slices() {
    let index = index(&[(0, 1), (0, 2), (1_000, 1), (599_000, 5), (600_000, 6), (601_500, 7)], 0, HOUR);
    assert_eq!(index.query(0, 600_000).as_slice(), Some(&[1, 2, 1, 5][..]));
    assert_eq!(index.query(1_000, 599_001).as_slice(), Some(&[1, 5][..]));
    assert_eq!(index.query(0, 600_001).as_slice(), None);
    assert_eq!(index.query(600_000, 601_500).as_slice(), Some(&[6][..]));
    assert_eq!(index.query(600_000, 601_501).as_slice(), None);
    assert_eq!(index.query(600_000, 601_501).fine().collect::<Vec<_>>(), [(601_500, 7)]);
    let seconds: Vec<_> =
        index.query(500, HOUR).seconds().map(|(due, jobs)| (due, jobs.as_slice().unwrap())).collect();
    assert_eq!(seconds, [(1_000, &[1][..]), (599_000, &[5]), (600_000, &[6])]);
    assert_eq!(jobs_at(&index, 0), [1, 2]);
    assert_eq!(jobs_at(&index, 500), []);
    assert_eq!(jobs_at(&index, HOUR), []);
}

#[test]
fn peek_gives_the_earliest_run() {
    assert_eq!(index(&[(3_000, 1), (2_000, 9), (2_000, 4)], 0, HOUR).peek(), Some((2_000, 4)));
    assert_eq!(index(&[(3_000, 1), (2_999, 9)], 0, HOUR).peek(), Some((2_999, 9)));
    assert_eq!(index(&[(3_000_000, 1)], 0, HOUR).first_due(), Some(3_000_000));
    assert_eq!(index(&[], 0, HOUR).peek(), None);
}

#[test]
fn multiple_jobs_at_the_same_time_are_in_job_order() {
    let runs: Vec<(i64, u32)> = [5, 3, 9, 1, 3, u32::MAX, 0].map(|job| (1_000, job)).into();
    assert_eq!(jobs_at(&index(&runs, 0, HOUR), 1_000), [0, 1, 3, 5, 9, u32::MAX]);
    let between: Vec<(i64, u32)> = [5, 3, 9, 3].map(|job| (1_001, job)).into();
    assert_eq!(all(&index(&between, 0, HOUR)), [(1_001, 3), (1_001, 5), (1_001, 9)]);
}

#[test]
fn counts_per_minute_split_at_the_given_start() {
    let index = index(&[(0, 1), (30_000, 1), (30_001, 1), (89_999, 2), (90_000, 1), (HOUR - 1, 3)], 0, HOUR);
    assert_eq!(index.counts_per_minute(0, 3), [3, 2, 0]);
    assert_eq!(index.counts_per_minute(30_000, 2), [3, 1]);
    assert_eq!(index.counts_per_minute(HOUR - 60_000, 2), [1, 0]);
    assert_eq!(index.counts_per_minute(i64::MAX - 5, 2), [0, 0]);
    assert_eq!(index.counts_per_minute(0, 60).iter().sum::<u32>() as usize, index.len());
}

#[test]
fn a_snapshot_outlives_the_swap() {
    let cell = IndexCell::default();
    cell.swap(index(&[(1_000, 1)], 0, HOUR));
    let kept = cell.snapshot();
    let look = cell.read();
    let old = cell.swap(index(&[(2_000, 2)], 0, HOUR));
    assert_eq!(kept.peek(), Some((1_000, 1)));
    assert_eq!(look.peek(), Some((1_000, 1)));
    assert_eq!(old.peek(), Some((1_000, 1)));
    assert_eq!(cell.read().peek(), Some((2_000, 2)));
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn reading_allocates_nothing() {
    let runs: Vec<(i64, u32)> = (0..20_000).map(|n| (i64::from(n) * 137 % HOUR, n % 50)).collect();
    let cell = IndexCell::new(index(&runs, 0, HOUR));
    drop(cell.read());
    let before = allocations();
    let mut seen = 0;
    for start in (0..HOUR).step_by(7_777) {
        let index = cell.read();
        let runs = index.query(start, start + 60_000);
        seen += runs.len() + runs.iter().count() + runs.slices().flatten().count() + runs.fine().count();
        seen += runs.seconds().map(|(_, jobs)| jobs.len()).sum::<usize>() + index.second(start).len();
        seen += usize::from(index.peek().is_some());
    }
    assert!(seen > 20_000);
    assert_eq!(allocations(), before, "reading allocated");
}
