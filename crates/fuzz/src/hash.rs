use std::fmt;

/// The full name of one commit: 40 hexadecimal digits, in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitHash(String);

/// Digits of a full hash. State files hold nothing shorter, so that a name means one commit for ever.
const DIGITS: usize = 40;

/// Fewer digits than this could mean anything.
const DIGITS_MIN: usize = 7;

impl CommitHash {
    /// A full hash; upper case is taken and written in lower case. `None` for anything else.
    pub fn full(text: &str) -> Option<CommitHash> {
        (text.len() == DIGITS && is_hex(text)).then(|| CommitHash(text.to_ascii_lowercase()))
    }

    /// Whether a person may have meant a commit by this: 7 to 40 hexadecimal digits. The history says which one.
    pub fn is_abbreviation(text: &str) -> bool {
        (DIGITS_MIN..=DIGITS).contains(&text.len()) && is_hex(text)
    }

    /// All 40 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first twelve digits, for people.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl fmt::Display for CommitHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CommitHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_hashes_and_abbreviations_are_told_apart() {
        let check = |text: &str, full: bool, abbreviation: bool| {
            assert_eq!(CommitHash::full(text).is_some(), full, "{text}");
            assert_eq!(CommitHash::is_abbreviation(text), abbreviation, "{text}");
        };
        check("0123456789abcdef0123456789abcdef01234567", true, true);
        check("0123456789ABCDEF0123456789abcdef01234567", true, true);
        check("0123456789abcdef0123456789abcdef0123456", false, true);
        check("0123456789abcdef0123456789abcdef012345678", false, false);
        check("abcdef0", false, true);
        check("abcdef", false, false);
        check("g123456", false, false);
        check("", false, false);
        check("HEAD", false, false);
        check("../../etc/passwd", false, false);
        check("éééééééééééééééééééé", false, false);
        assert_eq!(CommitHash::full(&"A".repeat(40)).unwrap().as_str(), "a".repeat(40));
    }
}
