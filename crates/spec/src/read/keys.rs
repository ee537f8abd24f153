//! The keys of all files that this crate reads, as data: the same tables that the reader itself looks keys up in.

use super::fields::{Key, Shape};
use super::{container, executors, footprint, for_each, http, job, lists, resources, schedule, step, target};
use crate::dagu::FileDialect;

/// The keys of one map in a file.
#[derive(Clone, Copy, Debug)]
pub struct KeyTable {
    /// Which map: `job`, `step`, `retry` and so on. Retry policies of jobs and steps are one table.
    pub section: &'static str,
    /// Its keys, and the keys of other schedulers that it refuses.
    pub shape: &'static Shape,
}

/// The maps of a job file.
pub const JOB_FILE: &[KeyTable] = &[
    KeyTable { section: "job", shape: &job::JOB },
    KeyTable { section: "schedule", shape: &schedule::ENTRY },
    KeyTable { section: "schedule_actions", shape: &schedule::ACTIONS },
    KeyTable { section: "footprint", shape: &footprint::FOOTPRINT },
    KeyTable { section: "param", shape: &lists::PARAM },
    KeyTable { section: "history", shape: &job::HISTORY },
    KeyTable { section: "step", shape: &step::STEP },
    KeyTable { section: "retry", shape: &step::RETRY_SHAPE },
    KeyTable { section: "continue_on", shape: &step::CONTINUE_ON },
    KeyTable { section: "precondition", shape: &step::PRECONDITION },
    KeyTable { section: "handlers", shape: &job::HANDLERS },
    KeyTable { section: "executor", shape: &target::PLACE },
    KeyTable { section: "for_each", shape: &for_each::FOR_EACH },
    KeyTable { section: "http", shape: &http::HTTP },
    KeyTable { section: "container", shape: &container::CONTAINER },
];

/// The maps of `resources.yaml` and of `executors.yaml`.
pub const OTHER_FILES: &[KeyTable] = &[
    KeyTable { section: "resources_file", shape: &resources::FILE },
    KeyTable { section: "resource", shape: &resources::RESOURCE },
    KeyTable { section: "executors_file", shape: &executors::FILE },
    KeyTable { section: "executors_group", shape: &executors::GROUP },
];

/// Every key of every file, with the section it stands in.
pub fn keys() -> impl Iterator<Item = (&'static str, &'static Key)> {
    let tables = JOB_FILE.iter().chain(OTHER_FILES);
    tables.flat_map(|table| table.shape.keys.iter().map(|key| (table.section, key)))
}

/// The words that a key takes, when it takes one of a few; otherwise nothing.
pub fn key_words(section: &str, key: &str) -> Vec<&'static str> {
    fn names<T>(words: &'static [(&'static str, T)]) -> Vec<&'static str> {
        words.iter().map(|(word, _)| *word).collect()
    }
    match (section, key) {
        // `dialect: dagu` at the top of a file makes all of it one of Dagu's.
        ("job", "dialect") => names(schedule::DIALECTS).into_iter().filter(|word| *word != "dagu").collect(),
        ("schedule", "dialect") => names(schedule::DIALECTS),
        ("resources_file", "dialect") => names(FileDialect::WORDS),
        ("job" | "schedule", "dst") => names(schedule::DSTS),
        ("job", "misfire") => names(job::MISFIRES),
        ("job", "overlap") => names(job::OVERLAPS),
        ("job", "type") => names(job::ORDERS),
        ("job" | "step", "route") => names(target::ROUTES),
        ("job" | "step", "block") => names(target::BLOCKS),
        ("job" | "step", "glue") => names(target::GLUES),
        ("step", "signal_on_stop") => names(step::SIGNALS),
        ("http", "method") => names(http::METHODS),
        ("container", "engine") => names(container::ENGINES),
        ("container", "pull") => names(container::PULLS),
        ("footprint", "on_conflict") => names(footprint::ON_CONFLICTS),
        ("executors_group", "dialect") => names(executors::DIALECTS),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_words_name_keys_that_exist_and_every_section_once() {
        let mut sections: Vec<&str> = JOB_FILE.iter().chain(OTHER_FILES).map(|table| table.section).collect();
        sections.sort_unstable();
        let count = sections.len();
        sections.dedup();
        assert_eq!(sections.len(), count);
        let with_words = keys().filter(|(section, key)| !key_words(section, key.name()).is_empty()).count();
        assert_eq!(with_words, 20, "a key with words was renamed, or a new one is missing here");
    }

    /// A map that is read with a table which is not listed above would escape every check that goes through the lists.
    #[test]
    fn every_shape_of_the_reader_is_listed() {
        let sources = [
            include_str!("container.rs"),
            include_str!("executors.rs"),
            include_str!("footprint.rs"),
            include_str!("for_each.rs"),
            include_str!("http.rs"),
            include_str!("job.rs"),
            include_str!("lists.rs"),
            include_str!("resources.rs"),
            include_str!("schedule.rs"),
            include_str!("step.rs"),
            include_str!("target.rs"),
        ];
        let declared: usize = sources.iter().map(|source| source.matches(": Shape =").count()).sum();
        assert_eq!(declared, JOB_FILE.len() + OTHER_FILES.len());
    }
}
