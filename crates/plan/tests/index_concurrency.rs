//! Readers while the index is swapped: whole snapshots, never a mixture, never an older one after a newer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cadran_plan::index::{Buffers, Index, IndexCell, Run, Window};

const JOBS: u32 = 50;

/// An index in which every run tells its version: the due is the version's second.
fn version(number: i64) -> Index {
    let runs: Vec<Run> = (0..JOBS).map(|job| Run { due: number * 1000, job }).collect();
    Index::from_runs(&runs, Window::new(0, 3_600_000), &mut Buffers::default())
}

/// The version of an index, after looking at every run of it.
fn check(index: &Index) -> i64 {
    let (due, _) = index.peek().expect("every version has runs");
    assert!(index.into_iter().eq((0..JOBS).map(|job| (due, job))), "a mixture of versions");
    assert_eq!(index.query(due, due + 1).as_slice().map(<[u32]>::len), Some(JOBS as usize));
    due / 1000
}

#[test]
fn concurrent_reads() {
    let index = version(7);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| assert_eq!(check(&index), 7)));
        }
    });
}

#[test]
fn concurrent_rebuild() {
    let cell = IndexCell::new(version(0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Acquire) {
                    let kept = cell.snapshot();
                    let seen = check(&kept);
                    assert!(seen >= last, "version {seen} after {last}");
                    let newer = check(&cell.read());
                    assert!(newer >= seen);
                    assert_eq!(check(&kept), seen, "a snapshot changed");
                    last = newer;
                }
            });
        }
        for number in 1..2_000 {
            assert_eq!(check(&cell.swap(version(number))), number - 1);
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(check(&cell.read()), 1_999);
}

/// The same under many chosen interleavings: threads change places between every two steps.
#[test]
fn interleaved_swaps_and_reads() {
    shuttle::check_random(
        || {
            let cell = Arc::new(IndexCell::new(version(0)));
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    let cell = cell.clone();
                    shuttle::thread::spawn(move || {
                        let mut last = 0;
                        for _ in 0..3 {
                            let look = cell.read();
                            shuttle::thread::yield_now();
                            let kept = cell.snapshot();
                            shuttle::thread::yield_now();
                            let (older, newer) = (check(&look), check(&kept));
                            assert!(last <= older && older <= newer);
                            last = newer;
                        }
                    })
                })
                .collect();
            let writer = {
                let cell = cell.clone();
                shuttle::thread::spawn(move || {
                    for number in 1..4 {
                        assert_eq!(check(&cell.swap(version(number))), number - 1);
                        shuttle::thread::yield_now();
                    }
                })
            };
            readers.into_iter().for_each(|reader| reader.join().unwrap());
            writer.join().unwrap();
            assert_eq!(check(&cell.read()), 3);
        },
        200,
    );
}
