//! An allocator that counts, for tests that hold a bound on memory.
//!
//! ```
//! use cadran_dev::allocation::{CountingAllocator, allocations, measure};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! let before = allocations();
//! let (list, memory) = measure(|| vec![0u8; 4096]);
//! assert_eq!((allocations() - before, memory.left, memory.peak), (1, 4096, 4096));
//! drop(list);
//! ```

// A global allocator cannot be written without it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    // Signed: memory may be given back by another thread than took it.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counting what each thread asks for.
pub struct CountingAllocator;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        release(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        release(layout.size());
        count(size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

// A thread that ends may free memory after its thread-locals are gone: that is not counted.
fn count(bytes: usize) {
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    let live = LIVE.try_with(|live| {
        live.set(live.get().saturating_add_unsigned(bytes));
        live.get()
    });
    if let Ok(live) = live {
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live)));
    }
}

fn release(bytes: usize) {
    let _ = LIVE.try_with(|live| live.set(live.get().saturating_sub_unsigned(bytes)));
}

/// How often this thread has asked for memory.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Bytes that a piece of work took on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Still allocated at its end.
    pub left: usize,
    /// The most that was allocated at once, above what there was before.
    pub peak: usize,
}

/// Runs the work and measures what it allocates on this thread.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Memory) {
    let before = LIVE.get();
    PEAK.set(before);
    let value = work();
    let above = |bytes: isize| usize::try_from(bytes - before).unwrap_or(0);
    (value, Memory { left: above(LIVE.get()), peak: above(PEAK.get()) })
}
