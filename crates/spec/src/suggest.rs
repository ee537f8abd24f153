//! "Did you mean": the nearest of the allowed words.

/// Words longer than this are compared by nobody; it also bounds the work for hostile input.
const WORD_CHARS_MAX: usize = 40;

/// The allowed word nearest to `word`, when it is near enough to have been meant.
pub(crate) fn nearest<'a>(word: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> = word.chars().take(WORD_CHARS_MAX + 1).flat_map(char::to_lowercase).collect();
    if typed.is_empty() || typed.len() > WORD_CHARS_MAX {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in allowed {
        let known: Vec<char> = candidate.chars().flat_map(char::to_lowercase).collect();
        // A third of the letters may differ, and at least one: `dir` is not what `cron` meant.
        let limit = (typed.len().max(known.len()) / 3).clamp(1, 4);
        let distance = distance(&typed, &known);
        if distance <= limit && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Insertions, deletions, changes and swaps of neighbours that lead from one word to the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i);
        for j in 1..=b.len() {
            let change = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_or_none() {
        let words = ["schedule", "steps", "timeout", "dir", "run", "overlap", "retry"];
        let check = |word: &str, expected: Option<&str>| assert_eq!(nearest(word, words), expected, "{word}");
        check("schedul", Some("schedule"));
        check("shcedule", Some("schedule"));
        check("SCHEDULE", Some("schedule"));
        check("step", Some("steps"));
        check("rnu", Some("run"));
        check("tiemout", Some("timeout"));
        check("cron", None);
        check("", None);
        check("zzzzzz", None);
        check(&"s".repeat(10_000), None);
    }
}
