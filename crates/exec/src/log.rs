use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes the log of one attempt: bounded, with a marker where something was left out.
///
/// The head is kept up to the bound, then the last [`TAIL_BYTES_MAX`] in memory until the end. A disk that refuses
/// cuts the log too, and the attempt goes on; when it takes bytes again, a marker says how many are missing.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: Option<File>,
    head_left: u64,
    tail: VecDeque<u8>,
    /// Bytes that fell out of the tail.
    left_out: u64,
    /// Bytes the disk refused since its last marker, and what it said.
    refused: Option<(u64, io::ErrorKind)>,
    ends_with_newline: bool,
}

/// Enough of the end to hold the error message people look for.
const TAIL_BYTES_MAX: usize = 64 << 10;

impl Log {
    /// Nothing is created before the first byte: most attempts of small jobs print nothing.
    pub(crate) fn new(path: PathBuf, bytes_max: u64) -> Log {
        Log {
            path,
            file: None,
            head_left: bytes_max.saturating_sub(TAIL_BYTES_MAX as u64),
            tail: VecDeque::new(),
            left_out: 0,
            refused: None,
            ends_with_newline: true,
        }
    }

    /// Goes on with a file that is open for appending.
    pub(crate) fn onto(path: &Path, file: File, bytes_max: u64) -> Log {
        Log { file: Some(file), ..Log::new(path.to_path_buf(), bytes_max) }
    }

    /// What the disk said, while it refuses to take more.
    pub(crate) fn refused(&self) -> Option<io::ErrorKind> {
        self.refused.map(|(_, kind)| kind)
    }

    /// Appends what a process printed.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.ends_with_newline = *last == b'\n';
        if self.head_left > 0 {
            let (head, rest) =
                bytes.split_at(bytes.len().min(usize::try_from(self.head_left).unwrap_or(usize::MAX)));
            self.head_left -= head.len() as u64;
            self.put(head);
            bytes = rest;
        }
        if bytes.is_empty() {
            return;
        }
        // What will not fit is dropped first, so that the tail never grows beyond its bound.
        let keep = &bytes[bytes.len().saturating_sub(TAIL_BYTES_MAX)..];
        let spill = (self.tail.len() + keep.len()).saturating_sub(TAIL_BYTES_MAX);
        self.tail.drain(..spill);
        let dropped = spill as u64 + (bytes.len() - keep.len()) as u64;
        if dropped > 0 && self.left_out == 0 {
            self.put("\n… cut: the log is full; what follows is left out but for its end …\n".as_bytes());
        }
        self.left_out += dropped;
        self.tail.extend(keep);
    }

    /// A line of our own, on a line of its own.
    pub(crate) fn note(&mut self, text: &str) {
        let newline = if self.ends_with_newline { "" } else { "\n" };
        self.append(format!("{newline}cadran: {text}\n").as_bytes());
    }

    /// Writes what was held back. The log is complete afterwards.
    pub(crate) fn finish(&mut self) {
        if self.left_out > 0 {
            self.put(format!("… cut: {} bytes left out …\n", self.left_out).as_bytes());
            self.left_out = 0;
        }
        let mut tail = std::mem::take(&mut self.tail);
        self.put(tail.make_contiguous());
        if self.refused.is_some() {
            self.mark_refused();
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if bytes.is_empty() || self.refused.is_some() && !self.mark_refused() {
            self.refuse(bytes.len(), None);
            return;
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.open().and_then(|file| file.write(rest)) {
                Ok(0) => return self.refuse(rest.len(), Some(io::ErrorKind::WriteZero)),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), %error, "a log is cut");
                    return self.refuse(rest.len(), Some(error.kind()));
                }
            }
        }
    }

    fn refuse(&mut self, bytes: usize, kind: Option<io::ErrorKind>) {
        match (&mut self.refused, kind) {
            (Some((count, _)), _) => *count += bytes as u64,
            (None, Some(kind)) => self.refused = Some((bytes as u64, kind)),
            (None, None) => {}
        }
    }

    /// Tries to say what is missing; true when the disk took it.
    fn mark_refused(&mut self) -> bool {
        let Some((count, kind)) = self.refused else { return true };
        let marker = format!("\n… cut: {count} bytes left out ({kind}) …\n");
        let taken = self.open().and_then(|file| file.write_all(marker.as_bytes())).is_ok();
        if taken {
            self.refused = None;
        }
        taken
    }

    fn open(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let open = || cadran_files::options().append(true).create(true).open(&self.path);
            let file = match (open(), self.path.parent()) {
                (Err(error), Some(dir)) if error.kind() == io::ErrorKind::NotFound => {
                    cadran_files::create_dir(dir)?;
                    open()?
                }
                (other, _) => other?,
            };
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn written(bytes_max: u64, chunks: &[&[u8]]) -> String {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a/b/x.log");
        let mut log = Log::new(path.clone(), bytes_max);
        chunks.iter().for_each(|chunk| log.append(chunk));
        log.finish();
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_log_within_its_bound_is_whole() {
        assert_eq!(written(1 << 20, &[]), "");
        assert_eq!(written(1 << 20, &[b"a\n", b"b"]), "a\nb");
        let all = "x".repeat(TAIL_BYTES_MAX + 100);
        assert_eq!(written(TAIL_BYTES_MAX as u64 + 100, &[all.as_bytes()]), all);
    }

    #[test]
    fn a_long_log_keeps_head_and_tail_and_says_how_much_is_missing() {
        let lines: Vec<String> = (0..50_000).map(|n| format!("line {n}\n")).collect();
        let total: usize = lines.iter().map(String::len).sum();
        let text =
            written(TAIL_BYTES_MAX as u64 + 1000, &lines.iter().map(|l| l.as_bytes()).collect::<Vec<_>>());
        assert!(text.starts_with("line 0\nline 1\n") && text.ends_with("line 49999\n"), "head and tail");
        let missing = total - 1000 - TAIL_BYTES_MAX;
        assert!(text.contains(&format!("… cut: {missing} bytes left out …\n")), "the marker");
        let one_chunk = "y".repeat(1 << 20);
        assert!(
            written(2000, &[one_chunk.as_bytes()])
                .contains(&format!("cut: {} bytes", (1 << 20) - TAIL_BYTES_MAX))
        );
    }

    #[test]
    fn a_disk_that_refuses_cuts_the_log_and_no_more() {
        let mut log = Log::new(PathBuf::from("/dev/full"), 1 << 20);
        log.append(b"lost\n");
        log.append(b"lost too\n");
        assert_eq!(log.refused.map(|(count, _)| count), Some(14));
        let dir = tempfile::tempdir().expect("a directory");
        // The disk has room again.
        (log.path, log.file) = (dir.path().join("x.log"), None);
        log.append(b"kept\n");
        log.finish();
        let text = fs::read_to_string(dir.path().join("x.log")).expect("there");
        assert!(text.contains("cut: 14 bytes left out") && text.ends_with("kept\n"), "{text}");
    }
}
