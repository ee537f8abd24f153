//! `repeat_policy` as a loop of the shell.

use super::Translator;
use super::keys::REPEAT;
use super::text::{pieces, shell_print, shell_word};
use crate::diagnostic::Code;
use crate::read::{Field, Fields, exit_codes, filled, scalar, text, whole};

/// Repeats of one step, for a file that does not say.
const REPEATS_MAX: i64 = 1_000_000_000;

impl Translator<'_> {
    /// The command in a loop that ends as the policy says. Its last exit code is that of the step.
    pub(super) fn repeat(&mut self, field: Field<'_>, body: &str, step: &Fields<'_>) -> String {
        let Some(fields) = Fields::read(field.value, &REPEAT, self.findings) else { return body.to_owned() };
        let interval = fields
            .get("interval_sec")
            .and_then(|field| whole(field.spelled, 0, 86_400, field.value, self.findings))
            .unwrap_or(0);
        let limit = fields
            .get("limit")
            .and_then(|field| whole(field.spelled, 1, REPEATS_MAX, field.value, self.findings))
            .unwrap_or(REPEATS_MAX);
        let codes =
            fields.get("exit_codes").map(|field| exit_codes(field, self.findings)).unwrap_or_default();
        let condition = fields.get("condition").and_then(|condition| {
            let value = filled(condition.spelled, condition.value, self.findings)?.to_owned();
            Some(
                match fields.get("expected").and_then(|field| text(field.spelled, field.value, self.findings))
                {
                    None => {
                        // A command in backticks or not: its exit code counts.
                        let command = value.trim().trim_matches('`').to_owned();
                        format!("( {command}\n) >/dev/null 2>&1")
                    }
                    Some(expected) => {
                        let print = shell_print(&pieces(&value));
                        match expected.strip_prefix("re:") {
                            Some(pattern) => format!("( {print}\n) | grep -Eq -e {}", shell_word(pattern)),
                            None => format!("[ \"$( {print}\n)\" = {} ]", shell_word(expected.trim())),
                        }
                    }
                },
            )
        });
        let word = match fields.get("repeat") {
            None => "until",
            Some(field) => {
                match scalar(field.spelled, "`while`, `until` or true", field.value, self.findings) {
                    Some(word) if matches!(word.text.as_str(), "while" | "until" | "true") => {
                        word.text.as_str()
                    }
                    Some(word) if word.text == "false" => return body.to_owned(),
                    Some(word) => {
                        let message = format!("`repeat` cannot be `{}`", crate::read::short(&word.text));
                        self.findings.error_help(
                            field.value.span,
                            Code::BadValue,
                            message,
                            "write `while` or `until`",
                        );
                        return body.to_owned();
                    }
                    None => return body.to_owned(),
                }
            }
        };
        let in_codes =
            codes.iter().map(|code| format!("[ $repeat_code -eq {code} ]")).collect::<Vec<_>>().join(" || ");
        let holds = match (condition, codes.is_empty()) {
            (Some(condition), _) => Some(condition),
            (None, false) => Some(in_codes),
            (None, true) => None,
        };
        let end = match (word, holds) {
            ("until", Some(holds)) => format!("if {holds}; then break; fi"),
            ("until", None) => "if [ $repeat_code -eq 0 ]; then break; fi".to_owned(),
            (_, Some(holds)) => format!("if {holds}; then :; else break; fi"),
            ("while", None) => "if [ $repeat_code -ne 0 ]; then break; fi".to_owned(),
            (_, None) => ":".to_owned(),
        };
        let strict = if step.get("shell").is_some() { ":" } else { "set -e" };
        self.note(field.key.span, "`repeat_policy` became a loop of the shell");
        format!(
            "set +e\nrepeat_count=0\nwhile :; do\n(\n{strict}\n{body}\n)\nrepeat_code=$?\nrepeat_count=$((repeat_count + 1))\n\
             {end}\nif [ $repeat_count -ge {limit} ]; then break; fi\nsleep {interval}\ndone\nexit $repeat_code"
        )
    }
}
