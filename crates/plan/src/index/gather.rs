//! Items by bucket, without counting them first.
//!
//! A bucket is a chain of small blocks taken from one room in the order in which they are needed. So a list is read only
//! once, and what is being written lies close together, however many runs there are: that takes half of the time of
//! counting, finding places and writing there.

/// Items in one block: some cache lines. Smaller ones would be changed more often, larger ones leave more room unused.
const BLOCK_LEN: usize = 64;

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// Items by bucket, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Gathered<T> {
    /// All blocks. What lies beyond those in use is left over from earlier use.
    room: Vec<T>,
    /// The block that follows each block in its chain.
    next: Vec<u32>,
    /// Where the next item of each bucket goes; at the edge of a block, into a new one.
    cursors: Vec<u32>,
    /// First and last block of each bucket.
    chains: Vec<(u32, u32)>,
}

/// What is written to while gathering. Apart from [`Gathered`], so that everything needed is at hand in registers.
pub(super) struct Gathering<'a, T> {
    room: &'a mut [T],
    cursors: &'a mut [u32],
    next: &'a mut Vec<u32>,
    chains: &'a mut [(u32, u32)],
}

impl<T> Gathering<'_, T> {
    /// Adds an item to a bucket.
    #[inline(always)]
    pub(super) fn push(&mut self, bucket: u32, item: T) {
        let cursor = &mut self.cursors[bucket as usize];
        if (*cursor as usize).is_multiple_of(BLOCK_LEN) {
            *cursor = lengthen(&mut self.chains[bucket as usize], self.next);
        }
        self.room[*cursor as usize] = item;
        *cursor += 1;
    }
}

impl<T: Copy + Default> Gathered<T> {
    /// The most items that places can be told for.
    pub(super) const LEN_MAX: usize = 1 << 31;

    /// Starts anew with so many buckets, for so many items.
    pub(super) fn begin(&mut self, buckets: usize, items: usize) -> Gathering<'_, T> {
        let len = (items / BLOCK_LEN + buckets.min(items)) * BLOCK_LEN;
        if self.room.len() < len {
            // Exactly, because growing by doubling could take twice the memory.
            self.room.reserve_exact(len - self.room.len());
            self.room.resize(len, T::default());
        }
        self.next.clear();
        self.cursors.clear();
        self.cursors.resize(buckets, 0);
        self.chains.clear();
        self.chains.resize(buckets, (NONE, NONE));
        Gathering {
            room: &mut self.room,
            cursors: &mut self.cursors,
            next: &mut self.next,
            chains: &mut self.chains,
        }
    }

    /// Whether there is no item at all.
    pub(super) fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// How many items a bucket has.
    pub(super) fn len(&self, bucket: usize) -> usize {
        self.blocks(bucket).map(<[T]>::len).sum()
    }

    /// The items of a bucket.
    pub(super) fn blocks(&self, bucket: usize) -> impl Iterator<Item = &[T]> {
        let (first, last) = self.chains[bucket];
        let tail = self.cursors[bucket] as usize;
        let mut block = first;
        std::iter::from_fn(move || {
            let start = block as usize * BLOCK_LEN;
            match block {
                NONE => None,
                _ if block == last => {
                    block = NONE;
                    Some(&self.room[start..tail])
                }
                _ => {
                    block = self.next[block as usize];
                    Some(&self.room[start..start + BLOCK_LEN])
                }
            }
        })
    }

    /// Copies the items of a bucket into one piece.
    pub(super) fn collect(&self, bucket: usize, into: &mut Vec<T>) {
        into.clear();
        self.blocks(bucket).for_each(|block| into.extend_from_slice(block));
    }
}

/// Gives a chain another block; says where that starts.
fn lengthen(chain: &mut (u32, u32), next: &mut Vec<u32>) -> u32 {
    let block = next.len() as u32;
    next.push(NONE);
    match *chain {
        (NONE, _) => *chain = (block, block),
        (_, last) => {
            next[last as usize] = block;
            chain.1 = block;
        }
    }
    block * BLOCK_LEN as u32
}
