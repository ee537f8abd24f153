//! Job files: what does this one say, and what is wrong with it?
#![forbid(unsafe_code)]

mod diagnostic;
mod read;
mod stored;
mod suggest;
mod tree;

pub use diagnostic::{Code, Diagnostic, Severity};
pub use read::{MAX_ACTIVE_STEPS_DEFAULT, Parsed, ReadOptions, Reader, read_job};
pub use stored::{DecodeError, Decoder, ScheduleText, encode, stored_schedules};
pub use tree::FILE_BYTES_MAX;
