/// Which bytes of a log a request wants, out of `len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteRange {
    /// All of it.
    Whole,
    /// `from..to`, not empty, inside the log.
    Part(u64, u64),
    /// The range lies outside the log.
    Unsatisfiable,
}

/// Reads a `Range` header. What is not one single range of bytes is ignored, as RFC 9110 asks: the answer is then the
/// whole.
pub(crate) fn byte_range(header: Option<&str>, len: u64) -> ByteRange {
    let Some(spec) = header.and_then(|header| header.trim().strip_prefix("bytes=")) else {
        return ByteRange::Whole;
    };
    let Some((first, last)) = spec.split_once('-') else {
        return ByteRange::Whole;
    };
    match (number(first), number(last)) {
        (Digits::Number(from), Digits::Nothing) => part(from, len, len),
        (Digits::Number(from), Digits::Number(last)) if last >= from => {
            part(from, last.saturating_add(1), len)
        }
        (Digits::Nothing, Digits::Number(tail)) => {
            part(len.saturating_sub(tail), if tail == 0 { 0 } else { len }, len)
        }
        _ => ByteRange::Whole,
    }
}

fn part(from: u64, to: u64, len: u64) -> ByteRange {
    let to = to.min(len);
    if from >= to { ByteRange::Unsatisfiable } else { ByteRange::Part(from, to) }
}

enum Digits {
    Nothing,
    Number(u64),
    Other,
}

fn number(text: &str) -> Digits {
    let text = text.trim();
    if text.is_empty() {
        Digits::Nothing
    } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number beyond 64 bits is beyond every log.
        Digits::Number(text.parse().unwrap_or(u64::MAX))
    } else {
        Digits::Other
    }
}

#[cfg(test)]
mod tests {
    use super::ByteRange::{Part, Unsatisfiable, Whole};
    use super::*;

    #[test]
    fn ranges() {
        let check = |header: &str, len: u64, expected: ByteRange| {
            assert_eq!(byte_range(Some(header), len), expected, "{header:?} of {len}");
        };
        assert_eq!(byte_range(None, 10), Whole);
        check("bytes=0-", 10, Part(0, 10));
        check("bytes=0-0", 10, Part(0, 1));
        check("bytes=2-5", 10, Part(2, 6));
        check("bytes=9-9", 10, Part(9, 10));
        check("bytes=9-99", 10, Part(9, 10));
        check("bytes=10-", 10, Unsatisfiable);
        check("bytes=11-12", 10, Unsatisfiable);
        check("bytes=-3", 10, Part(7, 10));
        check("bytes=-30", 10, Part(0, 10));
        check("bytes=-0", 10, Unsatisfiable);
        check("bytes=0-", 0, Unsatisfiable);
        check("bytes=-5", 0, Unsatisfiable);
        check("bytes=0-18446744073709551615", 10, Part(0, 10));
        check("bytes=99999999999999999999999-", 10, Unsatisfiable);
        check("bytes=-99999999999999999999999", 10, Part(0, 10));
        // Not understood, hence ignored.
        check("bytes=5-2", 10, Whole);
        check("bytes=-", 10, Whole);
        check("bytes=", 10, Whole);
        check("bytes=a-b", 10, Whole);
        check("bytes=0-1,3-4", 10, Whole);
        check("bytes=+1-2", 10, Whole);
        check("lines=0-1", 10, Whole);
        check("", 10, Whole);
    }
}
