//! Simulations whose jobs are drawn as text.

use std::sync::Arc;

use cadran_core::{Address, Dialect, Executor, GroupName, Job, Millis};
use cadran_engine::ExecutorChange;
use cadran_spec::{ReadOptions, Reader, Resources, ScheduleText};

use super::JobFile;
use super::grammar::{self, GROUPS, RESOURCES, Setting};
use super::yaml::{Value, shrink_value};
use crate::dice::Dice;
use crate::law::Violation;
use crate::play::{play, shrink};
use crate::script::{Scale, Script};

/// Files that are drawn for one that the reader accepts: of twenty it refuses one or two.
const DRAWS_MAX: u64 = 100;

/// Reads a job file as the server does.
fn read(file: &JobFile) -> Option<(Job, Vec<ScheduleText>)> {
    let resources = Resources::read(RESOURCES.as_bytes()).unwrap_or_default();
    let options = ReadOptions { resources: Arc::new(resources), ..ReadOptions::default() };
    let parsed = Reader::new(options).read(file.value.file().as_bytes(), &file.name).ok()?;
    Some((parsed.job, parsed.schedules))
}

impl Script {
    /// The script of a seed in which every job was written as a file and read by the real reader.
    pub fn drawn(seed: u64, scale: Scale) -> Script {
        let (mut definitions, mut schedules, mut files) = (Vec::new(), Vec::new(), Vec::new());
        let mut define = |dice: &mut Dice, no: u64, _: &[cadran_core::Zone], start: Millis| {
            let own = dice.draw();
            let (file, (job, texts)) = (0..DRAWS_MAX)
                .find_map(|draw| {
                    let mut dice = Dice::of(&[own, draw]);
                    let value = grammar::job_file(&mut dice, no, scale.jobs, Setting::Simulated(start));
                    let file = JobFile { name: format!("j{no}"), value };
                    read(&file).map(|read| (file, read))
                })
                .unwrap_or_else(|| unreachable!("none of {DRAWS_MAX} drawn files was accepted"));
            files.push(file);
            definitions.push(job);
            schedules.push(texts);
            definitions.len() - 1
        };
        let (start, acts) = Script::compose(seed, scale, &mut define);
        let span_ms = scale.span_ms;
        let (definitions, schedules) = (definitions.into(), schedules.into());
        Script { seed, start, span_ms, definitions, schedules, files: files.into(), acts, sabotage: None }
    }

    /// How many definitions of jobs it has.
    pub fn definitions(&self) -> u64 {
        self.definitions.len() as u64
    }

    /// Who is there to run steps elsewhere, told to every new server: two executors of XXL-JOB in the first group, two
    /// workers in the second, and nobody in the third.
    pub(crate) fn executors(&self) -> Vec<ExecutorChange> {
        let mut changes = Vec::new();
        if self.files.is_empty() {
            return changes;
        }
        let there = [
            (GROUPS[0], "http://10.0.0.1:9999", Dialect::Two),
            (GROUPS[0], "http://10.0.0.2:9999", Dialect::Three),
            (GROUPS[1], "worker:w1", Dialect::Worker),
            (GROUPS[1], "worker:w2", Dialect::Worker),
        ];
        for (group, address, dialect) in there {
            if let (Ok(group), Ok(address)) = (group.parse::<GroupName>(), address.parse::<Address>()) {
                let executor = Executor { address: address.clone(), dialect };
                changes.push(ExecutorChange::Seen(group.clone(), executor));
                let labels = vec![("gpu".to_owned(), "a100".to_owned())];
                changes.push(ExecutorChange::Labels(group, address, labels));
            }
        }
        changes
    }

    /// The same script with another file in one place.
    fn with_file(&self, at: usize, value: &Value) -> Option<Script> {
        let mut files = self.files.to_vec();
        files[at].value = value.clone();
        let (mut definitions, mut schedules) = (self.definitions.to_vec(), self.schedules.to_vec());
        (definitions[at], schedules[at]) = read(&files[at])?;
        let (definitions, schedules) = (definitions.into(), schedules.into());
        Some(Script { files: files.into(), definitions, schedules, ..self.clone() })
    }
}

/// The shortest script with the shortest files that was found to break the same law.
pub fn shrink_drawn(script: &Script, violation: Violation, tries: u32) -> (Script, Violation) {
    let (mut best, mut violation) = shrink(script, violation, tries);
    for at in best.used_definitions() {
        let base = best.clone();
        let law = violation.law;
        let fails = |value: &Value| {
            let failed = base.with_file(at, value).and_then(|candidate| play(&candidate).err());
            failed.is_some_and(|found| found.law == law)
        };
        let value = shrink_value(&best.files[at].value, tries, fails);
        if let Some(shorter) = best.with_file(at, &value)
            && let Err(found) = play(&shorter)
        {
            (best, violation) = (shorter, found);
        }
    }
    (best, violation)
}
