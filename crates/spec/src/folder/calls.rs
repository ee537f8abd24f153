//! Jobs whose steps call other jobs: who is missing, and who would wait for its own end.

use std::collections::BTreeMap;

use cadran_core::JobName;

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::suggest::nearest;

/// Jobs that are looked at below one: a deeper circle is refused when it is run.
const JOBS_BELOW_MAX: usize = 10_000;

/// What is wrong with the calls of each job. `is_known` tells which jobs there are.
pub fn problems(
    calls: &BTreeMap<JobName, Vec<JobName>>,
    is_known: impl Fn(&JobName) -> bool,
) -> Vec<(JobName, Diagnostic)> {
    let mut found = Vec::new();
    for (name, called) in calls {
        for missing in called.iter().filter(|called| !is_known(called)) {
            let message = format!("a step calls the job {missing}, which does not exist; it will fail");
            let help = match nearest(missing.as_str(), calls.keys().map(JobName::as_str)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "add a job file of that name, or correct the name".to_owned(),
            };
            let problem = Diagnostic::whole_file(Severity::Warning, Code::Missing, message).with_help(&help);
            found.push((name.clone(), problem));
        }
        if let Some(path) = circle(calls, name) {
            let names: Vec<&str> = path.iter().map(|name| name.as_str()).collect();
            let message = format!("these jobs call one another: {}", names.join(" → "));
            let help = "a call waits for its end, so none of them would end; remove one of the calls";
            found.push((
                name.clone(),
                Diagnostic::whole_file(Severity::Error, Code::Depends, message).with_help(help),
            ));
        }
    }
    found
}

/// The way from a job back to itself.
fn circle<'a>(calls: &'a BTreeMap<JobName, Vec<JobName>>, start: &'a JobName) -> Option<Vec<&'a JobName>> {
    let mut from: BTreeMap<&JobName, &JobName> = BTreeMap::new();
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        for called in calls.get(at).into_iter().flatten() {
            if called == start {
                let mut path = vec![start, at];
                let mut step = at;
                while step != start {
                    step = from.get(step)?;
                    path.push(step);
                }
                if at == start {
                    path.truncate(2);
                }
                path.reverse();
                return Some(path);
            }
            if from.len() < JOBS_BELOW_MAX && !from.contains_key(called) {
                from.insert(called, at);
                open.push(called);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_and_missing_jobs_are_found() {
        let name = |text: &str| text.parse::<JobName>().expect("a name");
        let jobs = |rows: &[(&str, &[&str])]| -> BTreeMap<JobName, Vec<JobName>> {
            rows.iter()
                .map(|(job, called)| (name(job), called.iter().map(|job| name(job)).collect()))
                .collect()
        };
        let check = |rows: &[(&str, &[&str])], expected: &[&str]| {
            let calls = jobs(rows);
            let found = problems(&calls, |job| job.as_str() != "gone");
            let texts: Vec<String> =
                found.iter().map(|(job, problem)| format!("{job}: {}", problem.message)).collect();
            assert_eq!(texts.len(), expected.len(), "{texts:?}");
            for (text, expected) in texts.iter().zip(expected) {
                assert!(text.contains(expected), "{text}: {expected}");
            }
        };
        check(&[("a", &["b", "c"]), ("b", &["c"])], &[]);
        check(&[("a", &["gone"])], &["a: a step calls the job gone"]);
        check(&[("a", &["b"]), ("b", &["a"])], &["a: these jobs call one another: a → b → a", "b → a → b"]);
        check(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])], &["b → c → b", "c → b → c"]);
    }
}
