//! Asking costs no memory: `next`, `previous`, `count`, `between` and `walk` allocate nothing.

use cadran_cron::{Dialect, Schedule, Zone};
use cadran_dev::allocation::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn asking_allocates_nothing() {
    let texts = [
        "*/5 * * * *",
        "30 2 * * *",
        "0 0 LW * FRI#2",
        "0 0 29 2 *",
        "0 0 0 1 1 ? 2030,2199",
        "every 90s",
        "at 2030-01-01T00:00:00Z",
    ];
    for text in texts {
        let schedule = Schedule::parse(text, &Zone::get("Europe/Paris").unwrap(), Dialect::Cadran).unwrap();
        let before = allocations();
        let mut sum = 0i64;
        for day in 0..400 {
            let at = 1_767_225_600_000 + day * 86_400_000;
            sum ^= schedule.next(at).unwrap_or(0) ^ schedule.previous(at).unwrap_or(0);
            sum ^= schedule.count(at, at + 86_400_000) as i64;
            sum ^= schedule.between(at, at + 3_600_000).sum::<i64>();
            schedule.walk(at, at + 3_600_000, &mut |due| sum ^= due);
        }
        std::hint::black_box(sum);
        assert_eq!(allocations(), before, "`{text}` allocated");
    }
}
