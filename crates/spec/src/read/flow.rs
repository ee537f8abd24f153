//! The steps of a job as a whole: names, `depends`, chains and circles.

use std::collections::BTreeMap;

use cadran_core::{Step, StepNo};

use super::findings::Findings;
use super::scalar::short;
use super::step::Draft;
use crate::diagnostic::Code;
use crate::suggest::nearest;
use crate::tree::Span;

/// In which order steps run that say nothing about it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// By `depends`; what does not depend on one another runs in parallel.
    Graph,
    /// One after the other.
    Chain,
}

/// Gives every step its name and resolves `depends`. There are at most [`Body::STEPS_MAX`](cadran_core::Body::STEPS_MAX).
pub(crate) fn resolve(mut drafts: Vec<Draft>, order: Order, findings: &mut Findings) -> Vec<Step> {
    for (at, draft) in drafts.iter_mut().enumerate() {
        if !draft.named {
            draft.step.name = format!("step_{}", at + 1);
        }
    }
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, draft) in drafts.iter().enumerate() {
        if let Some(first) = numbers.insert(&draft.step.name, at) {
            numbers.insert(&draft.step.name, first);
            let line = drafts[first].span.line;
            let message =
                format!("the step name `{}` is already taken on line {line}", short(&draft.step.name));
            findings.error_help(draft.span, Code::DuplicateKey, message, "give each step a name of its own");
        }
    }
    let depends: Vec<Vec<StepNo>> = drafts
        .iter()
        .enumerate()
        .map(|(at, draft)| numbers_of(at, draft, order, &numbers, findings))
        .collect();
    if order == Order::Graph {
        circle(&drafts, &depends, findings);
    }
    let mut steps = Vec::with_capacity(drafts.len());
    for (draft, depends) in drafts.into_iter().zip(depends) {
        steps.push(Step { depends, ..draft.step });
    }
    steps
}

fn numbers_of(
    at: usize,
    draft: &Draft,
    order: Order,
    numbers: &BTreeMap<&str, usize>,
    findings: &mut Findings,
) -> Vec<StepNo> {
    if order == Order::Chain {
        if let Some(span) = draft.depends_key {
            let message = "in a chain the steps run in the order of the file; `depends` is for `type: graph`";
            findings.error_help(span, Code::Conflict, message, "remove `depends`, or `type: chain`");
        }
        return if at > 0 { vec![StepNo(at as u16 - 1)] } else { Vec::new() };
    }
    let mut found: Vec<StepNo> = Vec::new();
    for (name, span) in &draft.depends {
        match numbers.get(name.as_str()) {
            Some(&number) if number == at => {
                findings.error(*span, Code::Depends, format!("the step `{}` depends on itself", short(name)));
            }
            Some(&number) => {
                let number = StepNo(number as u16);
                if !found.contains(&number) {
                    found.push(number);
                }
            }
            None => unknown(name, *span, numbers, findings),
        }
    }
    found
}

fn unknown(name: &str, span: Span, numbers: &BTreeMap<&str, usize>, findings: &mut Findings) {
    /// Names that are compared with the one that was meant.
    const COMPARED_MAX: usize = 500;
    if findings.is_full() {
        return findings.error(span, Code::Depends, "there is no such step");
    }
    // In the order of the file, so that the same file always gives the same advice.
    let mut names: Vec<(usize, &str)> = numbers.iter().map(|(name, at)| (*at, *name)).collect();
    names.sort_unstable();
    names.truncate(COMPARED_MAX);
    let help = match nearest(name, names.iter().map(|(_, name)| *name)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let shown: Vec<String> = names.iter().take(10).map(|(_, name)| short(name)).collect();
            format!("the steps are {}", shown.join(", "))
        }
    };
    findings.error_help(span, Code::Depends, format!("there is no step `{}`", short(name)), help);
}

/// Reports one circle, if there is one: steps that wait for one another would wait for ever.
fn circle(drafts: &[Draft], depends: &[Vec<StepNo>], findings: &mut Findings) {
    // A depth-first walk without recursion: a job may have ten thousand steps in a row.
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; drafts.len()];
    for root in 0..drafts.len() {
        if marks[root] != Mark::New {
            continue;
        }
        let mut path: Vec<(usize, usize)> = vec![(root, 0)];
        marks[root] = Mark::Open;
        while let Some(&mut (at, ref mut next)) = path.last_mut() {
            let Some(&StepNo(to)) = depends[at].get(*next) else {
                marks[at] = Mark::Done;
                path.pop();
                continue;
            };
            *next += 1;
            let to = usize::from(to);
            match marks[to] {
                Mark::Done => {}
                Mark::New => {
                    marks[to] = Mark::Open;
                    path.push((to, 0));
                }
                Mark::Open => {
                    let from = path.iter().position(|&(step, _)| step == to).unwrap_or(0);
                    let mut names: Vec<String> = path[from..]
                        .iter()
                        .take(8)
                        .map(|&(step, _)| short(&drafts[step].step.name))
                        .collect();
                    if path.len() - from > names.len() {
                        names.push("…".to_owned());
                    }
                    names.push(short(&drafts[to].step.name));
                    let span = drafts[at].depends.iter().find(|(name, _)| *name == drafts[to].step.name);
                    let span = span.map_or(drafts[at].span, |(_, span)| *span);
                    let message = format!("these steps wait for one another: {}", names.join(" → "));
                    findings.error_help(span, Code::Depends, message, "remove one `depends` of the circle");
                    return;
                }
            }
        }
    }
}
