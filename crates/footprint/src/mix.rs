//! Mixing: every bit of a key decides about every bit of its hash.
//!
//! The mixer is fixed, since decisions must repeat, so it can be attacked by whoever computes collisions beforehand. The
//! tables here are therefore bounded by their shape: a crowd that shares a place goes to an ordered map.

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd1b5_4a32_d192_ed03;

/// The two halves of the product, folded: no bit of either factor is lost.
#[inline]
pub(crate) const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// A number.
#[inline]
pub(crate) const fn number(value: u64) -> u64 {
    pair(value, 0)
}

/// Two numbers, by one multiplication: it is paid for every key of every footprint.
#[inline]
pub(crate) const fn pair(first: u64, second: u64) -> u64 {
    let [first, second] = factors(first, second);
    fold(first, second)
}

/// The factors of [`pair`].
#[inline]
pub(crate) const fn factors(first: u64, second: u64) -> [u64; 2] {
    [first ^ FIRST, second ^ SECOND]
}

/// A text, beginning from a number.
pub(crate) fn text(from: u64, text: &str) -> u64 {
    let mut hash = fold(from ^ FIRST, SECOND);
    let mut chunks = text.as_bytes().chunks_exact(8);
    for chunk in &mut chunks {
        let word = chunk.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        hash = fold(hash ^ word, FIRST);
    }
    let rest = chunks.remainder().iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    fold(fold(hash ^ rest, SECOND) ^ text.len() as u64, FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_number_moves_about_half_of_the_hash() {
        for base in [0, 1, u64::MAX, 1 << 41 | 7] {
            let moved: u32 = (0..64).map(|bit| (number(base) ^ number(base ^ 1 << bit)).count_ones()).sum();
            assert!((24 * 64..40 * 64).contains(&moved), "{base}: {moved}");
        }
    }

    #[test]
    fn texts_differ_by_length_order_and_beginning() {
        let texts =
            ["", "a", "b", "ab", "ba", "aaaaaaaa", "aaaaaaaaa", "aaaaaaaab", "baaaaaaa", "\0", "\0\0"];
        let mut hashes: Vec<u64> = (0..3).flat_map(|from| texts.map(|at| text(from, at))).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 3 * texts.len());
    }
}
