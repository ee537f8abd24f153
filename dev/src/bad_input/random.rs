//! Files changed at random, the same ones every time.

use super::{Corpus, SMALL, WHOLE};

impl Corpus {
    /// A generator of our own, so that the corpus never changes: xorshift.
    pub(super) fn random(&mut self) {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % limit.max(1)
        };
        let pieces: &[&[u8]] = &[
            b"\n",
            b"  ",
            b"- ",
            b": ",
            b"{",
            b"}",
            b"[",
            b"]",
            b"'",
            b"\"",
            b"|\n",
            b"&a ",
            b"*a",
            b"!x ",
            b"? ",
            b"#",
            b"---\n",
            b"\t",
            b"\0",
            b"\xff",
            b"<<: *a\n",
        ];
        for _ in 0..400 {
            let mut bytes = if below(3) == 0 { SMALL.as_bytes() } else { WHOLE.as_bytes() }.to_vec();
            for _ in 0..1 + below(8) {
                let at = below(bytes.len());
                match below(4) {
                    0 => drop(bytes.splice(at..at, pieces[below(pieces.len())].iter().copied())),
                    1 => drop(bytes.drain(at..(at + below(30)).min(bytes.len()))),
                    2 if !bytes.is_empty() => bytes[at] = below(256) as u8,
                    _ => {
                        let piece = bytes[at..(at + below(60)).min(bytes.len())].to_vec();
                        bytes.splice(at..at, piece);
                    }
                }
            }
            self.add("changed", false, bytes);
        }
        for _ in 0..100 {
            let bytes: Vec<u8> = (0..below(3_000)).map(|_| below(256) as u8).collect();
            self.add("noise", false, bytes);
        }
    }
}
