//! MD5 of short texts, for the one route whose rule names it. Nothing here is about secrets.

/// Shifts of the four rounds.
const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The digest of a text.
pub(crate) fn md5(text: &[u8]) -> [u8; 16] {
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut padded = text.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(text.len() as u64 * 8).to_le_bytes());
    for block in padded.chunks_exact(64) {
        let mut words = [0u32; 16];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let [mut a, mut b, mut c, mut d] = state;
        for at in 0..64 {
            let (mixed, word) = match at / 16 {
                0 => (b & c | !b & d, at),
                1 => (d & b | !d & c, (5 * at + 1) % 16),
                2 => (b ^ c ^ d, (3 * at + 5) % 16),
                _ => (c ^ (b | !d), 7 * at % 16),
            };
            let sum = a.wrapping_add(mixed).wrapping_add(sine(at)).wrapping_add(words[word]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[at / 16][at % 4]));
        }
        for (word, add) in state.iter_mut().zip([a, b, c, d]) {
            *word = word.wrapping_add(add);
        }
    }
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

/// The constants of the rounds are the sines of 1 to 64, as 32 bits behind the point.
fn sine(at: usize) -> u32 {
    static SINES: std::sync::LazyLock<[u32; 64]> = std::sync::LazyLock::new(|| {
        std::array::from_fn(|at| (((at + 1) as f64).sin().abs() * 4_294_967_296.0) as u32)
    });
    SINES[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digests() {
        let check = |text: &str, expected: &str| {
            let hex: String = md5(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "{text}");
        };
        check("", "d41d8cd98f00b204e9800998ecf8427e");
        check("abc", "900150983cd24fb0d6963f7d28e17f72");
        check(&"a".repeat(55), "ef1772b6dff9a122358552954ad0df65");
        check(&"a".repeat(56), "3b0c8ac703f828b04c6c197006d17218");
        check(&"a".repeat(64), "014842d480b571495a4a0363793f7367");
    }
}
