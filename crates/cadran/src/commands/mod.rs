//! One file per subcommand.

pub mod check;
pub mod files;
pub mod next;
pub mod plan;
pub mod run;
pub mod serve;
pub mod time;
