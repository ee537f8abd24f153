//! Does anything get lost, and does anything run twice?
//!
//! The simulation plays years of schedules in moments, with faults at every point, and holds what happened to the
//! promises of the product. It drives the real engine, planner, placement, flow and store; only the clock, the
//! executor and the pace of the store are simulated. One number decides everything, so any failure can be played
//! again.
//!
//! ```
//! use cadran_sim::{Scale, Script, play};
//!
//! let script = Script::new(1, Scale::SMALL);
//! let tally = play(&script).expect("no law is broken");
//! assert!(tally.dues > 0);
//! ```
//!
//! A script is a list of acts ([`Script`]) that is drawn from a seed before the simulation begins. [`play`] plays it;
//! [`shrink`] leaves acts out while it still fails.
//!
//! It knows nothing of processes, files, sockets and databases: those are tested with the real program.
//!
//! Invariants: the same script gives the same events, always; the checker believes what executors were told to start
//! and, for dues that did not run, the rows that say so.
#![forbid(unsafe_code)]

mod acts;
mod children;
mod deeds;
mod dice;
mod fleet;
mod hands;
mod job_text;
mod law;
mod life;
mod long;
mod oracle;
mod play;
mod policy;
mod record;
mod remote;
mod sabotage;
mod script;
mod step_law;
mod sweep;
mod touch;
mod world;

pub use job_text::{GROUPS, JobFile, RESOURCES, Setting, Value, draw_files, shrink_drawn, shrink_value};
pub use law::Violation;
pub use long::Long;
pub use play::{Tally, play, shrink};
pub use sabotage::Sabotage;
pub use script::{Scale, Script};
