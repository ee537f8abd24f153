//! Jobs by second, without counting them first.
//!
//! A second is a chain of small blocks taken from one room in the order in which they are needed. So a list is read only
//! once, and what is being written lies close together, however many runs there are: with many jobs at a few seconds,
//! as most fleets have them, that takes two thirds of the time of counting, finding places and writing there.

/// Jobs in one block: four cache lines. Smaller ones would be changed more often, larger ones leave more room unused.
const BLOCK_LEN: usize = 64;

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// Jobs by second, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// All blocks. What lies beyond those in use is left over from earlier use.
    room: Vec<u32>,
    /// The block that follows each block in its chain.
    next: Vec<u32>,
    /// Where the next job of each second goes; at the edge of a block, into a new one.
    cursors: Vec<u32>,
    /// First and last block of each second.
    chains: Vec<(u32, u32)>,
}

impl Gathered {
    /// The most jobs that places can be told for.
    pub(super) const LEN_MAX: usize = 1 << 31;

    /// Takes seconds, below `secs`, and jobs. Stops at a `None`, and says so.
    pub(super) fn fill(
        &mut self,
        secs: usize,
        mut jobs: impl ExactSizeIterator<Item = Option<(u32, u32)>>,
    ) -> bool {
        let blocks = jobs.len() / BLOCK_LEN + secs.min(jobs.len());
        if self.room.len() < blocks * BLOCK_LEN {
            self.room.reserve_exact(blocks * BLOCK_LEN - self.room.len());
            self.room.resize(blocks * BLOCK_LEN, 0);
        }
        self.next.clear();
        self.cursors.clear();
        self.cursors.resize(secs, 0);
        self.chains.clear();
        self.chains.resize(secs, (NONE, NONE));
        let (room, cursors) = (self.room.as_mut_slice(), self.cursors.as_mut_slice());
        jobs.all(|next| {
            let Some((second, job)) = next else { return false };
            let cursor = &mut cursors[second as usize];
            if (*cursor as usize).is_multiple_of(BLOCK_LEN) {
                *cursor = lengthen(&mut self.chains[second as usize], &mut self.next);
            }
            room[*cursor as usize] = job;
            *cursor += 1;
            true
        })
    }

    /// How many jobs a second has.
    pub(super) fn len(&self, second: usize) -> usize {
        self.blocks(second).map(<[u32]>::len).sum()
    }

    /// The jobs of a second.
    pub(super) fn blocks(&self, second: usize) -> impl Iterator<Item = &[u32]> {
        let (first, last) = self.chains[second];
        let tail = self.cursors[second] as usize;
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
