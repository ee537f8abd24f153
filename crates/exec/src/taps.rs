use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use tokio::net::unix::pipe::Receiver;

use crate::log::Log;

/// Where the output of a process goes: its log, and what the step asked for besides.
pub(crate) struct Taps<'l> {
    log: &'l mut Log,
    capture: Option<Capture>,
    side_out: Option<SideFile>,
    side_err: Option<SideFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// What was captured for later steps.
pub(crate) enum Captured {
    /// The step has no `output`.
    Nothing,
    Text(Box<str>),
    TooLarge,
}

struct Capture {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_over: bool,
}

/// What the kernel keeps in a pipe.
const PIPE_BYTES: usize = 64 << 10;

/// Read at once. One buffer per thread serves all attempts: an attempt without output has no buffer at all.
const CHUNK_BYTES: usize = 64 << 10;

thread_local! {
    static CHUNK: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK_BYTES].into());
}

impl<'l> Taps<'l> {
    pub(crate) fn new(
        log: &'l mut Log,
        capture_bytes_max: Option<usize>,
        side_out: Option<SideFile>,
        side_err: Option<SideFile>,
    ) -> Taps<'l> {
        let capture =
            capture_bytes_max.map(|bytes_max| Capture { bytes: Vec::new(), bytes_max, is_over: false });
        Taps { log, capture, side_out, side_err }
    }

    /// A line of our own in the log.
    pub(crate) fn note(&mut self, text: &str) {
        self.log.note(text);
    }

    /// Takes one chunk; false at the end of the stream.
    pub(crate) fn take(&mut self, stream: Stream, pipe: &Option<Receiver>) -> bool {
        self.read(stream, pipe).is_none_or(|len| len > 0)
    }

    /// Takes what a pipe holds right now, but not for ever what somebody goes on writing.
    pub(crate) fn take_rest(&mut self, stream: Stream, pipe: Option<Receiver>) {
        for _ in 0..=PIPE_BYTES / CHUNK_BYTES {
            if self.read(stream, &pipe).is_none_or(|len| len == 0) {
                return;
            }
        }
    }

    /// Completes the log and the files beside it.
    pub(crate) fn finish(self) -> Captured {
        [self.side_out, self.side_err].into_iter().flatten().for_each(|mut side| side.log.finish());
        let captured = match self.capture {
            None => Captured::Nothing,
            Some(Capture { is_over: true, bytes_max, .. }) => {
                self.log
                    .note(&format!("the output is larger than {bytes_max} bytes and cannot be passed on"));
                Captured::TooLarge
            }
            Some(Capture { bytes, .. }) => {
                // A NUL byte could not be passed on in an environment.
                Captured::Text(String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}").trim().into())
            }
        };
        self.log.finish();
        captured
    }

    /// How many bytes there were: 0 at the end of the stream, `None` when nothing is there yet.
    fn read(&mut self, stream: Stream, pipe: &Option<Receiver>) -> Option<usize> {
        let pipe = pipe.as_ref()?;
        CHUNK.with_borrow_mut(|chunk| match pipe.try_read(chunk) {
            Ok(len) => {
                self.put(stream, &chunk[..len]);
                Some(len)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                None
            }
            Err(_) => Some(0),
        })
    }

    fn put(&mut self, stream: Stream, bytes: &[u8]) {
        self.log.append(bytes);
        if stream == Stream::Out
            && let Some(capture) = &mut self.capture
        {
            if capture.bytes.len() + bytes.len() > capture.bytes_max {
                (capture.is_over, capture.bytes) = (true, Vec::new());
            }
            if !capture.is_over {
                capture.bytes.extend_from_slice(bytes);
            }
        }
        let side = if stream == Stream::Out { &mut self.side_out } else { &mut self.side_err };
        if let Some(side) = side
            && let Some(why) = side.append(bytes)
        {
            self.log.note(&why);
        }
    }
}

/// A file of the user's that receives a stream besides the log, with the bound of a log for each attempt.
pub(crate) struct SideFile {
    log: Log,
    name: String,
    is_refused: bool,
}

impl SideFile {
    /// Appends to the file. Never waits: a named pipe that nobody reads is refused instead of holding us.
    pub(crate) fn open(path: &Path, bytes_max: u64) -> Result<SideFile, String> {
        let flags = OFlag::O_NONBLOCK.bits();
        let file = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path);
        let name = path.display().to_string();
        match file {
            Ok(file) => Ok(SideFile { log: Log::onto(path, file, bytes_max), name, is_refused: false }),
            Err(error) => Err(format!("the output file {name} cannot be opened: {error}")),
        }
    }

    /// What to say in the step's own log, which has everything: the first time that the file takes no more.
    fn append(&mut self, bytes: &[u8]) -> Option<String> {
        self.log.append(bytes);
        let kind = self.log.refused().filter(|_| !std::mem::replace(&mut self.is_refused, true))?;
        Some(format!("the output file {} takes no more: {kind}", self.name))
    }
}
