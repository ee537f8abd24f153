//! What a running fuzzer says about itself, read from libFuzzer's status lines.

/// The latest figures. A fuzzer that prints none has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FuzzerStats {
    /// Inputs tried so far.
    pub executions: u64,
    /// Inputs tried per second.
    pub per_second: u64,
    /// Places of the code that were reached.
    pub coverage: u64,
    /// Inputs worth keeping.
    pub corpus: u64,
}

impl FuzzerStats {
    /// Takes the figures of one line; false when it is not a status line.
    ///
    /// `#1024 NEW cov: 12 ft: 15 corp: 4/29b lim: 4 exec/s: 512 rss: 30Mb …`, and in fork mode
    /// `#1024: cov: 12 ft: 15 corp: 4 exec/s 512 oom/timeout/crash: 0/0/0 …`.
    pub fn take(&mut self, line: &str) -> bool {
        let Some(rest) = line.trim_start().strip_prefix('#') else { return false };
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let Ok(executions) = rest[..digits].parse::<u64>() else { return false };
        let words: Vec<&str> = rest[digits..].split_ascii_whitespace().take(WORDS_MAX).collect();
        let after = |names: &[&str]| {
            let at = words.iter().position(|word| names.contains(word))?;
            let value = words.get(at + 1)?;
            let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
            value[..end].parse::<u64>().ok()
        };
        let per_second = after(&["exec/s:", "exec/s"]);
        if per_second.is_none() && after(&["rss:"]).is_none() {
            return false;
        }
        self.executions = self.executions.max(executions);
        self.per_second = per_second.unwrap_or(self.per_second);
        self.coverage = after(&["cov:"]).unwrap_or(self.coverage);
        self.corpus = after(&["corp:"]).unwrap_or(self.corpus);
        true
    }
}

/// Words of a status line that are looked at.
const WORDS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines_are_read() {
        let check = |line: &str, expected: Option<(u64, u64, u64, u64)>| {
            let mut stats = FuzzerStats::default();
            let read = stats.take(line).then_some(stats);
            let figures = read.map(|p| (p.executions, p.per_second, p.coverage, p.corpus));
            assert_eq!(figures, expected, "{line}");
        };
        check(
            "#1024\tNEW    cov: 12 ft: 15 corp: 4/29b lim: 4 exec/s: 512 rss: 30Mb L: 9/9 MS: 1 X-",
            Some((1024, 512, 12, 4)),
        );
        check("#2\tINITED exec/s: 0 rss: 25Mb", Some((2, 0, 0, 0)));
        check(
            "#65536: cov: 7 ft: 8 corp: 3 exec/s 9000 oom/timeout/crash: 0/0/1 time: 7s",
            Some((65536, 9000, 7, 3)),
        );
        check("    #0 0x55a in f /a.cpp:1:2", None);
        check("#", None);
        check("# comment", None);
        check("#99999999999999999999999 exec/s: 1", None);
        check("INFO: seed corpus: files: 3", None);
        check("#7 é exec/s: é", None);
    }
}
