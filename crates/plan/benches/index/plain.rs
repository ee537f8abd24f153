//! The design of the specification, written plainly: owned order, binary search, copies.

/// A due and the job's id.
pub(crate) type PlainRun<'a> = (i64, &'a str);

/// Sorts by (due, id) in place: the whole of building.
pub(crate) fn build<'a>(mut runs: Vec<PlainRun<'a>>) -> Vec<PlainRun<'a>> {
    runs.sort_unstable();
    runs
}

/// Binary search, then a copy of what is found.
pub(crate) fn query<'a>(runs: &[PlainRun<'a>], start: i64, end: i64) -> Vec<PlainRun<'a>> {
    let mut found = Vec::new();
    for &run in &runs[runs.partition_point(|run| run.0 < start)..] {
        if run.0 >= end {
            break;
        }
        found.push(run);
    }
    found
}
