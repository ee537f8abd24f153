//! The `schedule` key: a text, a list, or a map of start, stop and restart.

use std::sync::Arc;

use cadran_core::{Dst, Millis, Schedule, ScheduleAction, ScheduleEntry, Zone};
use cadran_cron::{Dialect, Rule};

use super::fields::{Field, Fields, Key, Shape, key, keys, snake_case};
use super::findings::Findings;
use super::scalar::{cron_error, cron_span, one_or_many, scalar, text, word, zone};
use crate::diagnostic::Code;
use crate::stored::ScheduleText;
use crate::tree::{Kind, Node, Scalar, Span};

/// A job with more schedules than this wants to be several jobs, and every one costs planning time.
pub(crate) const SCHEDULES_MAX: usize = 64;

/// How schedules of a job are read unless they say otherwise.
#[derive(Clone)]
pub(crate) struct Manner {
    pub(crate) zone: Zone,
    pub(crate) dialect: Dialect,
    pub(crate) dst: Dst,
    pub(crate) not_before: Option<Millis>,
    pub(crate) not_after: Option<Millis>,
}

/// The schedules of a job, as text and compiled, in the same order.
#[derive(Default)]
pub(crate) struct Schedules {
    pub(crate) texts: Vec<ScheduleText>,
    pub(crate) entries: Vec<ScheduleEntry>,
    spans: Vec<Span>,
    tried: usize,
}

pub(crate) const ACTIONS: Shape = Shape {
    what: "a schedule by action",
    keys: &[key("start"), key("stop"), key("restart")],
    unsupported: &[],
};

pub(crate) const ENTRY: Shape = Shape {
    what: "a schedule",
    keys: &[
        keys("cron", &["expression"]),
        key("every"),
        keys("from", &["anchor"]),
        key("at"),
        TIMEZONE,
        key("dialect"),
        key("dst"),
        key("kind"),
    ],
    unsupported: &[("profile", "make one job for each profile")],
};

pub(crate) const TIMEZONE: Key = keys("timezone", &["time_zone", "tz"]);

pub(crate) const DIALECTS: &[(&str, Dialect)] = &[
    ("cadran", Dialect::Cadran),
    ("vixie", Dialect::Vixie),
    ("seconds", Dialect::Seconds),
    ("quartz", Dialect::Quartz),
    ("xxl-job", Dialect::Quartz),
    ("dagu", Dialect::Dagu),
];

pub(crate) const DSTS: &[(&str, Dst)] =
    &[("auto", Dst::Auto), ("skip", Dst::Skip), ("shift", Dst::Shift), ("both", Dst::Both)];

impl Schedules {
    pub(crate) fn read(field: Field<'_>, manner: &Manner, findings: &mut Findings) -> Schedules {
        let mut schedules = Schedules::default();
        if is_by_action(field.value) {
            if let Some(fields) = Fields::read(field.value, &ACTIONS, findings) {
                let actions = [
                    ("start", ScheduleAction::Start),
                    ("stop", ScheduleAction::Stop),
                    ("restart", ScheduleAction::Restart),
                ];
                for (name, action) in actions {
                    if let Some(field) = fields.get(name) {
                        schedules.entries(name, field.value, action, manner, findings);
                    }
                }
            }
        } else {
            schedules.entries(field.spelled, field.value, ScheduleAction::Start, manner, findings);
        }
        schedules
    }

    fn entries(
        &mut self,
        name: &str,
        node: &Node,
        action: ScheduleAction,
        manner: &Manner,
        findings: &mut Findings,
    ) {
        for item in one_or_many(node) {
            self.tried += 1;
            if self.tried > SCHEDULES_MAX {
                findings.error(
                    item.span,
                    Code::Limit,
                    format!("a job has at most {SCHEDULES_MAX} schedules"),
                );
                return;
            }
            match &item.kind {
                Kind::Map(_) => self.object(item, action, manner, findings),
                // An empty text is Dagu's way to say "no schedule".
                Kind::Scalar(scalar) if scalar.text.trim().is_empty() || item.is_null() => {}
                _ => self.one(name, item, "", "", action, manner, findings),
            }
        }
    }

    /// `{cron: …}`, `{every: …}` or `{at: …}`, with what is particular to it.
    fn object(&mut self, node: &Node, action: ScheduleAction, manner: &Manner, findings: &mut Findings) {
        let Some(fields) = Fields::read(node, &ENTRY, findings) else { return };
        let mut manner = manner.clone();
        if let Some(field) = fields.get("timezone")
            && let Some(zone) = zone(field.spelled, field.value, findings)
        {
            manner.zone = zone;
        }
        if let Some(field) = fields.get("dialect")
            && let Some(dialect) = word(field.spelled, DIALECTS, field.value, findings)
        {
            manner.dialect = dialect;
        }
        if let Some(field) = fields.get("dst")
            && let Some(dst) = word(field.spelled, DSTS, field.value, findings)
        {
            manner.dst = dst;
        }
        let given: Vec<Field<'_>> =
            ["cron", "every", "at"].iter().filter_map(|name| fields.get(name)).collect();
        let field = match given[..] {
            [field] => field,
            [] => {
                let help = "add `cron`, `every` or `at`, as in `every: 10s`";
                return findings.error_help(
                    node.span,
                    Code::Missing,
                    "this schedule does not say when",
                    help,
                );
            }
            [first, second, ..] => {
                let message = format!("`{}` and `{}` are two schedules", first.spelled, second.spelled);
                return findings.error_help(
                    second.key.span,
                    Code::Conflict,
                    message,
                    "make them two items of a list",
                );
            }
        };
        if let Some(kind) = fields.get("kind") {
            let kinds = [("cron", "cron"), ("every", "every"), ("at", "at")];
            let said = word(kind.spelled, &kinds, kind.value, findings);
            let is = if field.name == "expression" { "cron" } else { field.name };
            if let Some(said) = said
                && said != is
            {
                let message = format!("`kind` is {said}, but the schedule is given by `{}`", field.spelled);
                findings.error_help(
                    kind.value.span,
                    Code::Conflict,
                    message,
                    "remove `kind`; it is not needed",
                );
            }
        }
        let mut behind = String::new();
        if let Some(from) = fields.get("from") {
            if field.name != "every" {
                let message = format!("`{}` is for `every` only", from.spelled);
                findings.error(from.key.span, Code::Conflict, message);
            } else if let Some(text) = text(from.spelled, from.value, findings) {
                // Checked alone first, so that an error points at it and not at the period.
                match Schedule::parse(&format!("at {text}"), &manner.zone, Dialect::Cadran) {
                    Ok(_) => behind = format!(" from {}", text.trim()),
                    Err(error) => {
                        if let Some(value) = scalar(from.spelled, "a date and time", from.value, findings) {
                            cron_error(from.value, value, 3, Some(from.spelled), &error, findings);
                        }
                        return;
                    }
                }
            }
        }
        let before = match field.name {
            "every" => "every ",
            "at" => "at ",
            _ => "",
        };
        self.one(field.spelled, field.value, before, &behind, action, &manner, findings);
    }

    /// One schedule, written as `before`, the value, and `behind`.
    #[allow(clippy::too_many_arguments)] // One call for each way to write a schedule; a struct would only rename them.
    fn one(
        &mut self,
        name: &str,
        node: &Node,
        before: &str,
        behind: &str,
        action: ScheduleAction,
        manner: &Manner,
        findings: &mut Findings,
    ) {
        let Some(value) = scalar(name, "a schedule", node, findings) else { return };
        let text = format!("{before}{}{behind}", value.text.trim());
        let text = ScheduleText {
            text,
            action,
            zone: manner.zone.clone(),
            dialect: if before.is_empty() { manner.dialect } else { Dialect::Cadran },
            dst: manner.dst,
            not_before: manner.not_before,
            not_after: manner.not_after,
        };
        let trimmed = (value.text.len() - value.text.trim_start().len()) as u32;
        let shifted = Scalar { verbatim: value.verbatim.map(|skip| skip + trimmed), ..value.clone() };
        match text.compile() {
            Ok(schedule) => {
                for warning in Schedule::warnings(&text.text, text.dialect) {
                    let span = cron_span(node, &shifted, before.len() as u32, &warning);
                    let help = warning.help().unwrap_or_default().to_owned();
                    findings.warn(span, Code::Schedule, warning.to_string(), help);
                }
                self.add(text, schedule, node.span, findings);
            }
            Err(error) => cron_error(node, &shifted, before.len() as u32, None, &error, findings),
        }
    }

    fn add(&mut self, mut text: ScheduleText, schedule: Schedule, span: Span, findings: &mut Findings) {
        if !matches!(schedule.rule(), Rule::Cron(_)) {
            // Elapsed time and instants have no clock changes and no dialect: one spelling for one meaning.
            (text.dst, text.dialect) = (Dst::Auto, Dialect::Cadran);
        }
        let entry = ScheduleEntry { schedule: Arc::new(schedule), action: text.action };
        if let Some(at) = self.entries.iter().position(|known| *known == entry) {
            let message =
                format!("this schedule names the same instants as the one on line {}", self.spans[at].line);
            findings.warn(
                span,
                Code::Conflict,
                message,
                "remove one of the two; an instant is never run twice",
            );
            return;
        }
        self.entries.push(entry);
        self.texts.push(text);
        self.spans.push(span);
    }
}

/// Whether a map is `{start: …, stop: …}` and not one schedule written as an object.
fn is_by_action(node: &Node) -> bool {
    let Kind::Map(entries) = &node.kind else { return false };
    let is = |names: &[&str]| {
        entries.iter().any(|(key, _)| matches!(&key.kind, Kind::Scalar(key) if names.contains(&snake_case(&key.text).as_str())))
    };
    is(&["start", "stop", "restart"])
        || !is(&["cron", "expression", "every", "at", "timezone", "kind", "dialect"])
}
