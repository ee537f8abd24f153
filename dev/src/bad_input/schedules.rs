//! Bad schedules, flows and footprints.

use super::Corpus;

impl Corpus {
    pub(super) fn schedules(&mut self) {
        let wrong = [
            "",
            " ",
            "*",
            "* *",
            "* * *",
            "* * * *",
            "* * * * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * * 8",
            "*/0 * * * *",
            "*/60 * * * *",
            "5-1-9 * * * *",
            "1, * * * *",
            ", * * * *",
            "a * * * *",
            "* * 30 2 *",
            "* * 31 4,6 *",
            "0 0 31W 2 *",
            "* * L-31 * *",
            "* * * * FRI#6",
            "* * * * FRI#0",
            "-1 * * * *",
            "1-/2 * * * *",
            "* * * JANU *",
            "0 0 0 1 1 ? 1969",
            "0 0 0 29 2 ? 2027",
            "@never",
            "@every",
            "every",
            "every 0s",
            "every -1s",
            "every 1ms",
            "every 1 fortnight",
            "every 99999999999h",
            "every 1e3s",
            "at",
            "at yesterday",
            "at 2026-02-30T00:00:00Z",
            "at 9999-12-31T23:59:59Z",
            "TZ=Mars/Base * * * * *",
            "CRON_TZ= * * * * *",
            "TZ=../../etc/passwd * * * * *",
            "* * * * *; reboot",
            "$(id) * * * *",
            "99999999999999999999 * * * *",
            "\u{661} * * * *",
            "＊ * * * *",
            "* * * * *\\n* * * * *",
            "0-59/1-3 * * * *",
            "*/*/* * * * *",
            "?#? * * * *",
            "LW-3 * * * *",
            "W * * * *",
        ];
        for text in wrong {
            self.add("schedule", text.trim() != "", format!("run: x\nschedule: {text:?}\n"));
            self.add(
                "schedule-list",
                text.trim() != "",
                format!("run: x\nschedule: ['* * * * *', {text:?}]\n"),
            );
            self.add(
                "schedule-map",
                text.trim() != "",
                format!("run: x\nschedule: {{start: {{cron: {text:?}}}}}\n"),
            );
        }
        let zones = [
            "no",
            "",
            "UTC+25",
            "europe/paris/",
            "/etc/localtime",
            "../UTC",
            "Europe/Pariss",
            "GMT+99",
            "\\u0000",
            "America/New York",
            "posix/UTC",
            "Local",
            "system",
            "right/UTC",
            "Etc/GMT+15",
            "+01:00",
            "12",
            "A/B/C/D/E/F",
            "Европа/Москва",
        ];
        for zone in zones {
            self.add("zone", false, format!("run: x\nschedule: '0 0 * * *'\ntimezone: \"{zone}\"\n"));
            self.add("zone-plain", false, format!("run: x\ntimezone: {}\n", zone.replace('\\', "")));
        }
        self.add("zone-long", true, format!("run: x\ntimezone: {}\n", "A/".repeat(10_000)));
        self.add("schedule-long", true, format!("run: x\nschedule: '{}'\n", "1,".repeat(100_000)));
        let durations = [
            "",
            "1",
            "-1s",
            "1.5.5s",
            "s",
            "1x",
            "1s1s",
            "1m 1h",
            "999999999999999999999s",
            "9223372036854775807ms",
            "1e9s",
            "１s",
            "1 s",
            "P1D",
            "∞",
            "0",
            "1h-1m",
        ];
        for text in durations {
            for key in ["timeout", "catchup_window"] {
                self.add("duration", false, format!("run: x\n{key}: {text:?}\n"));
            }
            self.add("duration", false, format!("run: x\nschedule: {{start: {{every: {text:?}}}}}\n"));
            self.add("duration", false, format!("run: x\nretry: {{limit: 1, interval: {text:?}}}\n"));
        }
    }

    pub(super) fn flows(&mut self) {
        for size in [1usize, 2, 3, 10, 100, 1_000] {
            let ring: String = (0..size)
                .map(|no| format!("  - {{name: s{no}, run: x, depends: s{}}}\n", (no + 1) % size))
                .collect();
            self.add("ring", true, format!("steps:\n{ring}"));
            let tail: String =
                (0..size).map(|no| format!("  - {{name: t{no}, run: x, depends: s0}}\n")).collect();
            self.add("ring-with-tails", true, format!("steps:\n{ring}{tail}"));
        }
        for text in [
            "steps: []",
            "steps: {}",
            "steps:",
            "steps: x",
            "steps: [x]",
            "steps: [[x]]",
            "steps: [~]",
            "steps: [{}]",
            "steps: [{name: a}]",
            "steps: [{run: x, script: y}]",
            "steps: [{name: a, run: x}, {name: a, run: y}]",
            "steps: [{name: a, run: x, depends: b}]",
            "steps: [{name: '', run: x}]",
            "steps: [{name: '../x', run: x}]",
            "steps: [{name: on_exit, run: x}]",
            "steps: [{run: []}]",
            "steps: [{run: ['']}]",
            "steps: [{run: \"a\\0b\"}]",
            "steps: [{run: {a: b}}]",
            "run: x\nsteps: [{run: y}]",
            "run: ''",
            "run: []",
            "steps: [{run: x, signal_on_stop: SIGNOPE}]",
            "steps: [{run: x, signal_on_stop: 99}]",
            "steps: [{run: x, retry: sometimes}]",
            "steps: [{run: x, retry: {limit: 1, when: now}}]",
            "steps: [{run: x, continue_on: never}]",
            "steps: [{run: x, stdout: ''}]",
            "steps: [{run: x, preconditions: [{condition: a, expected: 're:('}]}]",
            "handlers: {success: x}",
            "run: x\nhandlers: x",
            "run: x\nhandlers: {never: y}",
            "run: x\ntype: circle",
            "run: x\noverlap: maybe",
            "run: x\nmisfire: perhaps",
            "run: x\ndst: summer",
            "run: x\nhistory: {years: 1}",
            "run: x\nhistory: {days: 1, count: 1}",
        ] {
            self.add("flow", false, format!("{text}\n"));
        }
    }

    /// What a run touches, and cannot.
    pub(super) fn footprints(&mut self) {
        for count in [257usize, 1_000, 20_000] {
            let keys: String = (0..count).map(|no| format!("'t:{no}', ")).collect();
            for list in ["reads", "writes", "claims"] {
                self.add("footprint-many", true, format!("run: x\nfootprint: {{{list}: [{keys}]}}\n"));
            }
            let pools: String = (0..count).map(|no| format!("p{no}: 1, ")).collect();
            self.add("footprint-pools", true, format!("run: x\nfootprint: {{capacity: {{{pools}}}}}\n"));
        }
        for depth in [32usize, 100, 120] {
            self.add(
                "footprint-deep",
                true,
                format!("run: x\nfootprint: {{reads: 't:{}'}}\n", "a/".repeat(depth)),
            );
        }
        for len in [257usize, 10_000, 900_000] {
            self.add(
                "footprint-long",
                true,
                format!("run: x\nfootprint: {{reads: 't:{}'}}\n", "a".repeat(len)),
            );
        }
        for key in [
            "",
            " ",
            ":",
            ":x",
            "x",
            "t:",
            "t: ",
            "T:x",
            "1:x",
            "t t:x",
            "/srv/x",
            "job:x",
            "pool:gpu",
            "slot:1",
            "t:.",
            "t:..",
            "t:a/../b",
            "t:./a",
            "${a}:x",
            "t:${",
            "t:${}",
            "t:${a b}",
            "t:${nobody}",
            "t:${1}",
            "t:${a",
            "é:x",
            "t:\\0",
            "t:\\e[31m",
            "t:a\\nb",
            "%74:x",
        ] {
            for list in ["reads", "writes", "claims"] {
                self.add("footprint-key", true, format!("run: x\nfootprint: {{{list}: [\"{key}\"]}}\n"));
            }
        }
        for text in [
            "{eats: ['a:b']}",
            "{reads: {a: b}}",
            "{reads: [['a:b']]}",
            "{reads: [{a: b}]}",
            "{reads: [~]}",
            "{reads: [1]}",
            "{capacity: 2}",
            "{capacity: [gpu]}",
            "{capacity: gpu}",
            "{capacity: {gpu: 2}}",
            "{capacity: {gpu: 0}}",
            "{capacity: {gpu: -1}}",
            "{capacity: {gpu: 99999999999999999999}}",
            "{capacity: {gpu: 2 of 4}}",
            "{capacity: {gpu: 5 of 4}}",
            "{capacity: {gpu: all}}",
            "{capacity: {gpu: [1]}}",
            "{capacity: {'': 1}}",
            "{on_conflict: fight}",
            "{on_conflict: [wait]}",
            "{ordered: maybe}",
            "{reads: 'a:b', read: 'a:c'}",
            "[reads]",
            "x",
        ] {
            self.add("footprint", true, format!("run: x\nfootprint: {text}\n"));
        }
    }
}
