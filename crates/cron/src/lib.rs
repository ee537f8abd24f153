//! Cron expressions and calendars: which instants does an expression name?
//!
//! A [`Schedule`] is a rule read in a zone. It is compiled once from text and then asked for single dues
//! ([`next`](Schedule::next), [`previous`](Schedule::previous)), for windows ([`between`](Schedule::between),
//! [`stretches`](Schedule::stretches), [`walk`](Schedule::walk)) or for numbers ([`count`](Schedule::count)).
//!
//! ```
//! use cadran_cron::{Dialect, Schedule, Zone};
//!
//! let paris = Zone::get("Europe/Paris")?;
//! let schedule = Schedule::parse("0 9 * * MON-FRI", &paris, Dialect::Cadran)?;
//!
//! // In jiff's types …
//! let due = schedule.next_after(&"2026-11-15T12:00[Europe/Paris]".parse()?).expect("Monday");
//! assert_eq!(due.to_string(), "2026-11-16T09:00:00+01:00[Europe/Paris]");
//!
//! // … or in milliseconds since the epoch: Sunday, 00:00 UTC, and Monday, 09:00 in Paris.
//! assert_eq!(schedule.next(1_794_700_800_000), Some(1_794_816_000_000));
//! assert_eq!(schedule.count(1_794_700_800_000, 1_794_700_800_000 + 7 * 86_400_000), 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Notation
//!
//! Five fields (minute, hour, day of month, month, day of week), six (second first) or seven (year last). In each:
//!
//! | written | means |
//! |---|---|
//! | `*`, `?` | any value |
//! | `5`, `1,15`, `MON`, `jan` | these values; weekdays 0 and 7 are Sunday |
//! | `9-17`, `22-2`, `FRI-MON` | a range, around the end of the field where it must |
//! | `*/15`, `9-17/2`, `5/15` | steps; `a/n` runs to the end of the field |
//! | `L`, `L-3`, `15W`, `LW` | day of month: the last, the third before it, the weekday nearest the 15th (never in another month), the last weekday |
//! | `FRI#2`, `5L` | day of week: the second Friday of the month, the last Friday |
//!
//! Where both day fields are restricted either one is enough; `*/n` counts as restricted. Other notations differ as
//! [`Dialect`] says. [`Schedule::parse`] lists what else can be written.
//!
//! # When the clocks change
//!
//! A reading of the wall clock is missing in a *gap* and comes twice in a *fold*. **Fixed times** (no `*`, step or range
//! in second, minute and hour) run once: at the end of the gap, several together as one due, and in the first pass of
//! the fold. **Intervals** follow elapsed time: nothing for the gap, both passes of the fold. [`Dst`] overrides either.
//!
//! # What it does not know
//!
//! It knows nothing of jobs, clocks and files: the time is an argument, and zones are values, looked up in the
//! database that is part of the program.
//!
//! # Invariants
//!
//! - Instants are milliseconds since the epoch, UTC. Dues lie in the years 1970–2199, `[0, INSTANT_END)`; nothing is
//!   found outside, and no argument overflows.
//! - `next` is strictly after its argument and `previous` strictly before; windows are half open. All ways of asking
//!   name the same instants.
//! - Every search is bounded by the range of years, and what can never match is refused when it is read.
//! - No text panics: it gives a schedule or an [`Error`] with its column.
//! - The same text gives the same dues everywhere: `every` is anchored at the epoch unless an anchor is given.

#![forbid(unsafe_code)]

mod calendar;
mod civil;
mod describe;
mod dialect;
mod duration;
mod error;
mod field;
mod jiff_types;
mod marks;
mod parse;
mod schedule;
mod text;
mod walk;
mod zone;

pub use calendar::Calendar;
pub use dialect::Dialect;
pub use duration::parse_duration;
pub use error::{Error, ErrorKind, Field, WindowError};
pub use parse::TEXT_BYTES_MAX;
pub use schedule::{Dst, PERIOD_MS_MIN, Rule, Schedule, check_window};
pub use walk::{Dues, Stretch};
pub use zone::{Zone, ZoneError};

/// An instant: milliseconds since the epoch, UTC.
pub type Millis = i64;

/// The first instant past the supported years: 2200-01-01T00:00:00Z.
pub const INSTANT_END: Millis = 7_258_118_400_000;

/// The examples of the README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
