//! Features of YAML that are refused, and bad names.

use super::{Corpus, SMALL};

impl Corpus {
    pub(super) fn yaml_features(&mut self) {
        for text in [
            "a: *nobody",
            "a: &a [*a]",
            "a: &a\n  b: *a",
            "&a",
            "*a",
            "!",
            "!x",
            "!!",
            "!!str",
            "!<>",
            "!<tag:x> y",
            "%YAML 9.9\n---\nrun: x",
            "%TAG ! x\n---\nrun: x",
            "%\n",
            "---",
            "...",
            "--- ---",
            "--- a\n--- b",
            "run: x\n---\nrun: y",
            "run: x\n...\nrun: y",
            "---\n---\n---",
            "run: x\n--- \n",
            "? run\n: x\n? run\n: y",
            "<<: x",
            "<<: [x]",
            "<<: {run: x}\n<<: {run: y}",
            "<<: *a",
            "run: &a x\nname: *a",
            "run: |9\n x",
            "run: |-+\n x",
            "run: >0\n x",
            "run: |\n\tx",
            "run: 'x",
            "run: \"x",
            "run: \"\\q\"",
            "run: \"\\x\"",
            "run: \"\\U00110000\"",
            "run: [x",
            "run: {x",
            "run: x]",
            "run: x}",
            "{run: x",
            "[run: x",
            "run:x",
            ": x",
            "- x",
            "x",
            "-",
            "?",
            ":",
            "@x",
            "`x`",
            "run: @x",
            "run: %x",
            "run: x: y",
            "run: - x",
            "run: x\n  name: y",
            "  run: x\nname: y",
            "run: x\n\tname: y",
            "\trun: x",
            "run: x #",
            "#",
            "null",
            "~",
            "true",
            "1",
            "\"run: x\"",
            "[]",
            "{}",
            "[{run: x}]",
            "{\"run\": \"x\", \"run\": \"y\"}",
            "{\"run\": \"x\",}",
            "run: x,\nname: y",
            "\u{feff}\u{feff}run: x",
            "run: x\n\u{feff}name: y",
        ] {
            self.add("yaml", false, text);
            self.add("yaml-behind", false, format!("{SMALL}{text}\n"));
        }
        for count in [2usize, 100, 50_000] {
            self.add("documents", true, "run: x\n---\n".repeat(count));
            self.add("anchors", true, (0..count).map(|no| format!("a{no}: &a{no} x\n")).collect::<String>());
            self.add("aliases", true, format!("a: &a x\nb: [{}]\n", "*a, ".repeat(count)));
            self.add("tags", false, format!("run: {}x\n", "!a ".repeat(count)));
        }
    }

    pub(super) fn names(&mut self) {
        for name in [
            "",
            ".",
            "..",
            "../x",
            "/etc/passwd",
            "a/b",
            "a\\\\b",
            "a b",
            "-rf",
            "--help",
            ".x",
            "é",
            "x\\u0000",
            "x\\n",
            "x\\u001b[31m",
            "%2e%2e",
            "%00",
            "a;b",
            "a|b",
            "$(id)",
            "`id`",
            "a'b",
            "CON",
            "~",
            "x:y",
            "\\u202ex",
            "a\\tb",
            "*",
            "?",
            "\\ud83d\\ude00",
        ] {
            self.add("name", false, format!("name: \"{name}\"\nrun: x\n"));
            self.add("step-name", false, format!("steps:\n  - {{name: \"{name}\", run: x}}\n"));
        }
        for len in [128usize, 129, 10_000, 900_000] {
            self.add("name-long", len > 128, format!("name: {}\nrun: x\n", "n".repeat(len)));
        }
    }
}
