//! Readers while the index is swapped: whole snapshots, never a mixture, never an older one after a newer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cadran_plan::index::{Buffers, Index, IndexCell, Run, Window};

// The reader's mailbox once more, with cells that change threads at every step.
#[path = "../src/index/mailbox.rs"]
mod mailbox;
mod sync {
    #[derive(Debug)]
    pub(crate) struct AtomicCell<T>(shuttle::sync::Mutex<T>);

    impl<T: Default> AtomicCell<T> {
        pub(crate) fn new(value: T) -> AtomicCell<T> {
            AtomicCell(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn swap(&self, value: T) -> T {
            std::mem::replace(&mut self.0.lock().unwrap(), value)
        }

        pub(crate) fn take(&self) -> T {
            self.swap(T::default())
        }
    }
}

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
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                let mut reader = cell.reader();
                while !done.load(Ordering::Acquire) {
                    let read = check(reader.read());
                    assert!(read >= last, "a reader went back from {last} to {read}");
                    let kept = reader.snapshot();
                    let seen = check(&kept);
                    assert!(seen >= read, "version {seen} after {read}");
                    assert_eq!(check(&kept), seen, "a snapshot changed");
                    last = seen;
                }
            });
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

/// A reader that exchanges all the time, under many chosen interleavings: what it has never goes back, nothing that was
/// put in before it looked is missed, and everything but the last is let go.
#[test]
fn interleaved_mail() {
    use shuttle::sync::atomic::AtomicU64;

    const PUT: u64 = 6;
    shuttle::check_random(
        || {
            let mailbox = Arc::new(mailbox::Mailbox::new());
            let put = Arc::new(AtomicU64::new(0));
            let reader = {
                let (mailbox, put) = (mailbox.clone(), put.clone());
                shuttle::thread::spawn(move || {
                    let mut had = Arc::new(0);
                    for _ in 0..PUT {
                        let (before, at_least) = (*had, put.load(Ordering::SeqCst));
                        mailbox.exchange(&mut had);
                        assert!(*had >= before, "went back from {before} to {had}");
                        assert!(*had >= at_least, "{had} although {at_least} was in");
                    }
                    had
                })
            };
            let items: Vec<Arc<u64>> = (1..=PUT).map(Arc::new).collect();
            for item in &items {
                mailbox.put(item.clone());
                put.store(**item, Ordering::SeqCst);
            }
            let mut had = reader.join().unwrap();
            for _ in 0..2 {
                mailbox.exchange(&mut had);
                assert_eq!(*had, PUT);
            }
            mailbox.put(had);
            let kept = items.iter().filter(|item| Arc::strong_count(item) > 1).map(|item| **item);
            assert_eq!(kept.collect::<Vec<_>>(), [PUT]);
        },
        2_000,
    );
}

/// What nobody reads any more is let go: by the next swap, or with the reader.
#[test]
fn readers_keep_little() {
    let cell = IndexCell::new(version(0));
    let mut reader = cell.reader();
    let first = Arc::downgrade(&cell.swap(version(1)));
    assert_eq!(check(reader.read()), 1);
    cell.swap(version(2));
    assert!(first.upgrade().is_none(), "the first index is still kept");
    let kept = Arc::downgrade(&cell.snapshot());
    drop(cell);
    assert_eq!(check(reader.read()), 2, "a reader outlives its cell");
    drop(reader);
    assert!(kept.upgrade().is_none(), "gone with its reader");
}
