//! One file per subcommand.

pub mod check;
pub mod executor;
pub mod executors;
pub mod files;
pub mod fuzz;
pub mod history;
pub mod http_step;
pub mod import;
pub mod jobs;
pub mod logs;
pub mod next;
pub mod open;
pub mod pause;
pub mod plan;
mod plan_conflicts;
pub mod ps;
pub mod resume;
pub mod retry;
pub mod run;
pub mod serve;
pub mod show;
pub mod status;
pub mod stop;
pub mod time;
pub mod trigger;
pub mod why;
pub mod worker;
