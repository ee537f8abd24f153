//! Job files as text, drawn at random from the reader's own list of keys.
//!
//! The simulation reads them with the real reader and plays them; a test of the program gives them to the real server.

mod grammar;
mod script;
mod yaml;

pub use grammar::{GROUPS, RESOURCES, Setting};
pub use script::shrink_drawn;
pub use yaml::{Value, shrink_value};

use crate::dice::Dice;

/// One job file.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// The file's name without its ending, which is the name of the job.
    pub name: String,
    /// What it says.
    pub value: Value,
}

/// The files of `jobs` jobs, named `j0`, `j1` and so on. The reader refuses a few of them.
pub fn draw_files(seed: u64, jobs: u64, setting: Setting) -> Vec<JobFile> {
    (0..jobs)
        .map(|no| {
            let value = grammar::job_file(&mut Dice::of(&[seed, 0x7e47, no]), no, jobs, setting);
            JobFile { name: format!("j{no}"), value }
        })
        .collect()
}
