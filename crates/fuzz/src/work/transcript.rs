use std::collections::VecDeque;

/// What a command printed, bounded: the beginning and the end are kept, what lies between is counted.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
    /// The line that is being printed, for whoever follows line by line.
    line: Vec<u8>,
}

/// Half of what is kept of one command. A compiler's first errors are in the first megabyte, a sanitiser's report is
/// in the last.
const HALF_BYTES: usize = 1 << 20;

/// A longer line is handed on in pieces.
const LINE_BYTES_MAX: usize = 16 << 10;

impl Transcript {
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let room = HALF_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        let rest = match rest.len().checked_sub(HALF_BYTES) {
            Some(over) => {
                self.dropped += over as u64;
                &rest[over..]
            }
            None => rest,
        };
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(HALF_BYTES);
        self.tail.drain(..over);
        self.dropped += over as u64;
    }

    /// The same, and every whole line goes to `each`.
    pub(crate) fn take_lines(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        self.take(bytes);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() > LINE_BYTES_MAX {
                each(String::from_utf8_lossy(&self.line).trim_end());
                self.line.clear();
            }
        }
    }

    /// A line of our own.
    pub(crate) fn note(&mut self, text: &str) {
        self.take(format!("cadran: {text}\n").as_bytes());
    }

    /// Everything that was kept, with a mark where something is missing.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut all = self.head.clone();
        if self.dropped > 0 {
            all.extend_from_slice(format!("\ncadran: {} bytes are left out here\n", self.dropped).as_bytes());
        }
        all.extend(self.tail.iter());
        all
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// The first line that speaks of an error, else the last that says something: a reason of one line.
    pub(crate) fn reason(&self) -> String {
        const SHOWN_CHARS_MAX: usize = 200;
        let text = self.text();
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        let error = lines().find(|line| line.contains("error: ") || line.contains("ERROR: "));
        error.or_else(|| lines().next_back()).unwrap_or_default().chars().take(SHOWN_CHARS_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        let mut transcript = Transcript::default();
        transcript.take(b"first\n");
        for _ in 0..40 {
            transcript.take(&[b'x'; 100_000]);
        }
        transcript.take(b"\nlast\n\n");
        let text = transcript.text();
        assert!(text.starts_with("first\nxxx"));
        assert!(text.ends_with("xxx\nlast\n\n"));
        assert!(text.contains("cadran: 1902861 bytes are left out here"), "{}", transcript.dropped);
        assert!(text.len() < 2 * HALF_BYTES + 100);
        assert_eq!(transcript.reason(), "last");

        let mut small = Transcript::default();
        small.take(b"one\ntwo");
        let mut compiler = Transcript::default();
        compiler.take(b"make: Entering\na.cpp:1:2: error: no\na.cpp:3:4: error: also\n2 errors generated.\n");
        assert_eq!(compiler.reason(), "a.cpp:1:2: error: no");
        assert_eq!(small.text(), "one\ntwo");
        // More at once than is kept at all.
        small.take(&vec![b'y'; 3 * HALF_BYTES]);
        let kept = small.head.len() + small.tail.len();
        assert_eq!((kept, kept as u64 + small.dropped), (2 * HALF_BYTES, 7 + 3 * HALF_BYTES as u64));
    }

    #[test]
    fn lines_are_handed_on_whole() {
        let mut transcript = Transcript::default();
        let mut lines = Vec::new();
        for bytes in ["on", "e\ntw", "o\n", "\nthree"] {
            transcript.take_lines(bytes.as_bytes(), |line| lines.push(line.to_owned()));
        }
        assert_eq!(lines, ["one", "two", ""]);
        transcript.take_lines(&vec![b'z'; 2 * LINE_BYTES_MAX], |line| lines.push(line.len().to_string()));
        assert_eq!(lines.len(), 4);
    }
}
