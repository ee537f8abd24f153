//! Where does each second of a segment start? Two spellings of the same table, so that it stays small beside the runs.

use super::segment::SPAN_SECS;

/// From this many runs on, plain offsets take less than half a byte for each.
const OFFSETS_RUNS_MIN: usize = 6_000;

/// Number of runs before each second of a segment.
#[derive(Debug)]
pub(super) enum Directory {
    /// The start of each second, and the end of the last.
    Offsets(Box<[u32]>),
    /// For each second a one for every run, then a zero. A few words, searched by counting bits.
    Unary(Box<[u64]>),
}

impl Default for Directory {
    /// Without runs no words are needed.
    fn default() -> Directory {
        Directory::Unary(Box::default())
    }
}

impl Directory {
    pub(super) fn new(counts: &[u32], total: usize) -> Directory {
        match total {
            0 => Directory::default(),
            1..OFFSETS_RUNS_MIN => Directory::Unary(unary(counts, total)),
            _ => Directory::Offsets(offsets(counts)),
        }
    }

    /// Runs before a second, 0 to `SPAN_SECS` inclusive.
    #[inline]
    pub(super) fn start_of(&self, second: usize) -> usize {
        match self {
            Directory::Offsets(starts) => starts[second] as usize,
            Directory::Unary(words) if words.is_empty() => 0,
            Directory::Unary(words) => after_zeros(words, second) - second,
        }
    }

    /// A walk from a second on.
    pub(super) fn walk(&self, second: usize) -> Walk<'_> {
        match self {
            Directory::Offsets(starts) => Walk::Offsets { starts, second },
            Directory::Unary(words) => Walk::Unary { words, second, bit: after_zeros(words, second) },
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Directory::Offsets(starts) => starts.len() * 4,
            Directory::Unary(words) => words.len() * 8,
        }
    }
}

/// Yields the seconds that have runs: the second, where its runs start, where they end.
#[derive(Clone, Debug)]
pub(super) enum Walk<'a> {
    Offsets { starts: &'a [u32], second: usize },
    Unary { words: &'a [u64], second: usize, bit: usize },
}

impl Iterator for Walk<'_> {
    type Item = (usize, usize, usize);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Walk::Offsets { starts, second } => {
                let rest = &starts[*second..];
                let skip = rest.windows(2).position(|pair| pair[0] < pair[1])?;
                *second += skip + 1;
                Some((*second - 1, rest[skip] as usize, rest[skip + 1] as usize))
            }
            Walk::Unary { words, second, bit } => loop {
                let word = *words.get(*bit / 64)? >> (*bit % 64);
                let left = 64 - *bit % 64;
                if word & 1 == 0 {
                    let empty = (word.trailing_zeros() as usize).min(left);
                    (*second, *bit) = (*second + empty, *bit + empty);
                } else {
                    let start = *bit - *second;
                    let end = start + ones_from(words, *bit);
                    (*second, *bit) = (*second + 1, end + *second + 1);
                    return Some((*second - 1, start, end));
                }
            },
        }
    }
}

fn offsets(counts: &[u32]) -> Box<[u32]> {
    let mut starts = Vec::with_capacity(SPAN_SECS + 1);
    let mut at = 0;
    starts.push(at);
    for &count in counts {
        at += count;
        starts.push(at);
    }
    starts.into_boxed_slice()
}

fn unary(counts: &[u32], total: usize) -> Box<[u64]> {
    let mut words = vec![0u64; (total + SPAN_SECS).div_ceil(64)];
    let mut bit = 0;
    // Few runs leave most seconds empty: those are passed over by eights.
    for eight in counts.chunks(8) {
        if eight.iter().fold(0, |any, count| any | count) == 0 {
            bit += eight.len();
            continue;
        }
        for &count in eight {
            for _ in 0..count {
                words[bit / 64] |= 1 << (bit % 64);
                bit += 1;
            }
            bit += 1;
        }
    }
    words.into_boxed_slice()
}

/// The place right after so many zeros.
fn after_zeros(words: &[u64], zeros: usize) -> usize {
    let mut left = zeros as u32;
    if left == 0 {
        return 0;
    }
    for (n, word) in words.iter().enumerate() {
        if left <= word.count_zeros() {
            let mut unset = !word;
            for _ in 1..left {
                unset &= unset - 1;
            }
            return n * 64 + unset.trailing_zeros() as usize + 1;
        }
        left -= word.count_zeros();
    }
    words.len() * 64
}

/// How many ones stand from a bit on.
fn ones_from(words: &[u64], bit: usize) -> usize {
    let first = (words[bit / 64] >> (bit % 64)).trailing_ones() as usize;
    if first < 64 - bit % 64 {
        return first;
    }
    let whole = words[bit / 64 + 1..].iter().take_while(|&&word| word == u64::MAX).count();
    let last = words.get(bit / 64 + 1 + whole).map_or(0, |word| word.trailing_ones());
    first + whole * 64 + last as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both spellings tell the same.
    fn check(counts: [u32; SPAN_SECS]) {
        let total = counts.iter().sum::<u32>() as usize;
        let starts = offsets(&counts);
        let spellings = [Directory::Unary(unary(&counts, total)), Directory::Offsets(starts.clone())];
        for directory in spellings {
            for second in 0..=SPAN_SECS {
                assert_eq!(directory.start_of(second), starts[second] as usize, "second {second}");
                let expected = (second..SPAN_SECS).filter(|&n| counts[n] > 0);
                let expected = expected.map(|n| (n, starts[n] as usize, starts[n + 1] as usize));
                assert!(directory.walk(second).eq(expected), "from second {second}");
            }
        }
    }

    #[test]
    fn spellings_agree() {
        let patterns: [&dyn Fn(usize) -> u32; 8] = [
            &|n| u32::from(n == 0),
            &|n| u32::from(n == SPAN_SECS - 1),
            &|_| 1,
            &|n| u32::from(n % 60 == 0) * 100,
            &|n| (n * n % 7) as u32,
            &|n| u32::from(n % 64 == 63) * 64,
            &|n| u32::from(n == 300) * 5_999,
            &|n| u32::from(n > 590) * 129,
        ];
        for pattern in patterns {
            check(std::array::from_fn(pattern));
        }
    }

    #[test]
    fn empty_has_no_words() {
        let directory = Directory::new(&[0; SPAN_SECS], 0);
        assert_eq!((directory.start_of(0), directory.start_of(SPAN_SECS), directory.bytes()), (0, 0, 0));
        assert_eq!(directory.walk(0).next(), None);
    }
}
