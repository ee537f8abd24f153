use std::sync::{Arc, OnceLock};

use cadran_core::StepNo;

/// The captured outputs of a run, in the order of their steps, whatever order they arrived in.
///
/// Orders share one list. It is built when it is first asked for after a change: its length is bounded by what fits
/// in a process's environment, for that is where it goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    by_step: Vec<(StepNo, Box<str>, Box<str>)>,
    shared: OnceLock<Arc<[(Box<str>, Box<str>)]>>,
}

impl Outputs {
    pub(crate) fn set(&mut self, no: StepNo, name: &str, value: &str) {
        let entry = (no, name.into(), value.into());
        match self.by_step.binary_search_by_key(&no, |(step, ..)| *step) {
            Ok(at) => self.by_step[at] = entry,
            Err(at) => self.by_step.insert(at, entry),
        }
        self.shared = OnceLock::new();
    }

    pub(crate) fn get(&self, no: StepNo) -> Option<&str> {
        let at = self.by_step.binary_search_by_key(&no, |(step, ..)| *step).ok()?;
        Some(&self.by_step[at].2)
    }

    pub(crate) fn shared(&self) -> Arc<[(Box<str>, Box<str>)]> {
        let build = || self.by_step.iter().map(|(_, name, value)| (name.clone(), value.clone())).collect();
        self.shared.get_or_init(build).clone()
    }
}
