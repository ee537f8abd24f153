//! Many things in parts that fit the nearer caches, by bits of their hashes.
//!
//! It is what joins of large tables do: memory is read and written in long runs instead of at one place for each key.

use std::ops::Range;

/// What a part has room for beyond a fair share and a quarter: in small parts, keys that some more want weigh more.
const SPARE: usize = 1 << 10;

/// Things in parts. Within a part they stand in the order in which they came.
pub(crate) struct Parts<T> {
    /// The things, with room between the parts, and where each part is.
    all: Vec<T>,
    ranges: Vec<Range<u32>>,
}

impl<T> Default for Parts<T> {
    fn default() -> Parts<T> {
        Parts { all: Vec::new(), ranges: Vec::new() }
    }
}

impl<T: Copy> Parts<T> {
    /// Scatters things into so many parts, a power of two; each is asked for its part. `vacant` stands where nothing is.
    pub(crate) fn scatter(
        &mut self,
        parts: usize,
        vacant: T,
        things: impl ExactSizeIterator<Item = T> + Clone,
        part: impl Fn(&T) -> usize,
    ) {
        if !self.scatter_evenly(parts, vacant, things.clone(), &part) {
            self.scatter_counted(vacant, things, part);
        }
    }

    /// The parts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[T]> {
        self.ranges.iter().map(|range| &self.all[range.start as usize..range.end as usize])
    }

    /// Scatters things into parts of the same room. Says whether that was enough: it is, unless very many are of one hash.
    #[inline(never)]
    fn scatter_evenly(
        &mut self,
        parts: usize,
        vacant: T,
        things: impl ExactSizeIterator<Item = T>,
        part: impl Fn(&T) -> usize,
    ) -> bool {
        let fair = things.len() / parts;
        let room = (fair + fair / 4 + SPARE) as u32;
        self.ranges.clear();
        self.ranges.extend((0..parts as u32).map(|part| part * room..part * room));
        self.all.resize(room as usize * parts, vacant);
        let (ranges, all) = (&mut self.ranges[..], &mut self.all[..]);
        for thing in things {
            if let Some(range) = ranges.get_mut(part(&thing)) {
                let at = range.end as usize;
                range.end += 1;
                // What finds no room is written over the part that follows, or nowhere, and all is done again.
                if let Some(place) = all.get_mut(at) {
                    *place = thing;
                }
            }
        }
        self.ranges.iter().all(|range| range.end - range.start <= room)
    }

    /// Scatters things into parts of the room that they need, after [`scatter_evenly`](Parts::scatter_evenly) counted them.
    #[cold]
    fn scatter_counted(
        &mut self,
        vacant: T,
        things: impl ExactSizeIterator<Item = T>,
        part: impl Fn(&T) -> usize,
    ) {
        self.all.resize(things.len(), vacant);
        let mut from = 0;
        for range in &mut self.ranges {
            let len = range.end - range.start;
            *range = from..from;
            from += len;
        }
        for thing in things {
            let range = &mut self.ranges[part(&thing)];
            self.all[range.end as usize] = thing;
            range.end += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_stand_in_their_parts_in_order() {
        let mut scattered = Parts::default();
        // All in one part, evenly, most in the first, the last or some other part; so many that room matters, few, and none.
        let ways: [fn(u32) -> u32; 4] = [|at| at, |_| 0, |_| 7, |at| if at % 5 == 0 { at } else { 3 }];
        for (way, parts) in ways.iter().flat_map(|way| [(way, 1), (way, 8)]) {
            for len in [0, 1, 100, 5_000] {
                let part = |&at: &u32| way(at) as usize % parts;
                scattered.scatter(parts, u32::MAX, 0..len, part);
                assert_eq!(scattered.iter().count(), parts);
                for (found, number) in scattered.iter().zip(0..) {
                    let expected = (0..len).filter(|at| part(at) == number);
                    assert!(found.iter().copied().eq(expected), "{len} in {parts}, part {number}");
                }
            }
        }
    }
}
