//! Bad keys and values of jobs and steps.

use super::{Corpus, JOB_KEYS, STEP_KEYS, WHOLE, line_of, misspelled};

impl Corpus {
    pub(super) fn keys(&mut self) {
        for key in JOB_KEYS {
            let once = line_of(WHOLE, key).unwrap_or(format!("{key}: x"));
            self.add("twice", true, format!("run: x\n{once}\n{once}\n"));
            self.add("twice-quoted", true, format!("run: x\n{once}\n'{key}': x\n"));
            for wrong in misspelled(key) {
                self.add("unknown", true, format!("run: x\n{wrong}: x\n"));
            }
        }
        for key in STEP_KEYS {
            self.add("step-twice", true, format!("steps:\n  - {{run: x, {key}: x, {key}: x}}\n"));
            for wrong in misspelled(key) {
                self.add("step-unknown", true, format!("steps:\n  - {{name: a, run: x, {wrong}: x}}\n"));
            }
        }
        for key in [
            "__proto__",
            "constructor",
            "uid",
            "user",
            "exec",
            "\"\"",
            "'\\0'",
            "~",
            "1",
            "1.5",
            "true",
            "[a]",
            "{a: b}",
            "*a",
            "!x a",
        ] {
            self.add("odd-key", true, format!("run: x\n{key}: x\n"));
        }
    }

    pub(super) fn values(&mut self) {
        let values = [
            "",
            "~",
            "[]",
            "{}",
            "[[]]",
            "{a: {b: c}}",
            "-1",
            "0",
            "99999999999999999999999",
            "1e400",
            ".inf",
            ".nan",
            "0x10",
            "0o17",
            "1_000",
            "no",
            "NO",
            "yes",
            "on",
            "Off",
            "true",
            "2026-11-15",
            "12:30:45",
            "'a\\0b'",
            "\"\\0\"",
            "\"\\u202e\"",
            "!!binary aGk=",
            "!!python/object:os.system x",
            "!include /etc/passwd",
            "../../etc/passwd",
            "$(reboot)",
            "`id`",
            "\"\\ud800\"",
            "|\n  x",
            ">-\n  y",
        ];
        for key in JOB_KEYS {
            for value in values {
                self.add("value", false, format!("run: x\n{key}: {value}\n"));
            }
        }
        for key in STEP_KEYS {
            for value in values.iter().step_by(2) {
                self.add("step-value", false, format!("steps:\n  - name: a\n    {key}: {value}\n"));
            }
        }
        let numbers = [
            "-1",
            "99999999999999999999",
            "1e9",
            "1e400",
            "-0",
            "0x7fffffffffffffff",
            "9223372036854775808",
            ".nan",
        ];
        for number in numbers {
            for place in ["priority", "max_active_steps", "hist_retention_days", "timeout_sec"] {
                self.add("number", false, format!("run: x\n{place}: {number}\n"));
            }
            self.add("number", false, format!("run: x\nretry: {{limit: {number}, backoff: {number}}}\n"));
            self.add("number", false, format!("run: x\nhistory: {{days: {number}}}\n"));
        }
        for name in ["", "1A", "A B", "A=B", "'A\\0'", "é", "LD_PRELOAD", "\"A\\nB\"", "CADRAN_RUN_ID"] {
            self.add("variable", false, format!("run: x\nenv: {{{name:?}: x}}\n"));
            self.add("parameter", false, format!("run: x\nparams: {{{name:?}: x}}\n"));
            self.add("output", false, format!("steps:\n  - {{run: x, output: {name:?}}}\n"));
        }
    }
}
