//! Files that are bad as text: cut off, torn, in odd encodings, too deep, too large.

use super::{Bad, Content, Corpus, SMALL, WHOLE};

impl Corpus {
    /// A writer that died, at every place.
    pub(super) fn cut_and_torn(&mut self) {
        for at in (0..WHOLE.len()).step_by(5) {
            self.add("cut", false, &WHOLE.as_bytes()[..at]);
        }
        for at in 0..SMALL.len() {
            self.add("cut-small", false, &SMALL.as_bytes()[..at]);
        }
        // Blocks of zeros, as after a power cut.
        for at in (0..WHOLE.len()).step_by(40) {
            let mut bytes = WHOLE.as_bytes().to_vec();
            let end = (at + 64).min(bytes.len());
            bytes[at..end].fill(0);
            self.add("torn", true, bytes);
        }
        // One line is missing, twice there, or moved by one blank.
        let lines: Vec<&str> = WHOLE.lines().collect();
        for no in 0..lines.len() {
            let mut some = lines.clone();
            some.remove(no);
            self.add("line-missing", false, some.join("\n"));
            let mut some = lines.clone();
            some.insert(no, lines[no]);
            self.add("line-twice", false, some.join("\n"));
            let mut some = lines.clone();
            let moved = format!(" {}", lines[no]);
            some[no] = &moved;
            self.add("line-moved", false, some.join("\n"));
            let mut some = lines.clone();
            let tabbed = format!("\t{}", lines[no].trim_start());
            some[no] = &tabbed;
            self.add("tab", false, some.join("\n"));
        }
    }

    pub(super) fn encodings(&mut self) {
        let pieces: &[(&str, bool, &[u8])] = &[
            ("nul", true, b"\0"),
            ("not-utf8", true, b"\xff"),
            ("overlong", true, b"\xc0\xaf"),
            ("surrogate", true, b"\xed\xa0\x80"),
            ("half-character", true, b"\xe2\x82"),
            ("bom-inside", false, b"\xef\xbb\xbf"),
            ("escape", false, b"\x1b[31m"),
            ("bell", false, b"\x07"),
            ("backspace", false, b"\x08\x08\x08"),
            ("line-separator", false, "\u{2028}".as_bytes()),
            ("right-to-left", false, "\u{202e}".as_bytes()),
            ("next-line", false, "\u{85}".as_bytes()),
            ("no-break-space", false, "\u{a0}".as_bytes()),
            ("far-character", false, "\u{10ffff}".as_bytes()),
        ];
        for (family, refused, piece) in pieces {
            for at in (0..WHOLE.len()).filter(|at| WHOLE.is_char_boundary(*at)).step_by(97) {
                let (head, tail) = WHOLE.as_bytes().split_at(at);
                self.add(family, *refused, [head, *piece, tail].concat());
            }
        }
        let wide: Vec<u16> = SMALL.encode_utf16().collect();
        let little: Vec<u8> = wide.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = wide.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        self.add("utf16-le", true, [&b"\xff\xfe"[..], &little].concat());
        self.add("utf16-be", true, [&b"\xfe\xff"[..], &big].concat());
        self.add("utf16-no-bom", true, little);
        self.add("bom", false, format!("\u{feff}{SMALL}"));
        for text in [WHOLE, SMALL] {
            self.add("crlf", false, text.replace('\n', "\r\n"));
            self.add("cr", false, text.replace('\n', "\r"));
            self.add("mixed", false, text.replacen('\n', "\r\n", 5).replacen("\r\n", "\r", 1));
            self.add("no-newline", false, text.trim_end());
        }
    }

    /// Little text that stands for much.
    pub(super) fn bombs(&mut self) {
        for levels in [2usize, 5, 9, 12, 30] {
            for width in [2usize, 5, 9, 50] {
                let huge = (width as f64).powi(levels as i32) > 300_000.0;
                let (mut list, mut map) = (String::from("a0: &a0 [x]\n"), String::from("a0: &a0 {k: x}\n"));
                let mut merge = String::from("a0: &a0 {k: x}\n");
                for level in 1..=levels {
                    let alias = format!("*a{}", level - 1);
                    let many = vec![alias.clone(); width].join(", ");
                    list.push_str(&format!("a{level}: &a{level} [{many}]\n"));
                    let pairs: Vec<String> = (0..width).map(|no| format!("k{no}: {alias}")).collect();
                    map.push_str(&format!("a{level}: &a{level} {{{}}}\n", pairs.join(", ")));
                    merge.push_str(&format!("a{level}: &a{level}\n  <<: [{many}]\n  k{level}: y\n"));
                }
                self.add("bomb-list", true, list.clone());
                self.add("bomb-map", true, map);
                self.add("bomb-merge", true, merge);
                // Behind a key that is read.
                self.add("bomb-env", huge, format!("run: x\n{list}env: {{A: *a{levels}}}\n"));
            }
        }
        for copies in [10usize, 100, 1_000] {
            let long = "x".repeat(100_000);
            self.add("bomb-text", true, format!("a: &a {long}\nb: [{}]\n", vec!["*a"; copies].join(", ")));
        }
    }

    pub(super) fn depth_and_size(&mut self) {
        for depth in [10usize, 60, 65, 100, 1_000, 10_000, 100_000] {
            self.add("deep-list", true, format!("run: {}", "[".repeat(depth)));
            self.add("deep-closed", true, format!("run: {}x{}", "[".repeat(depth), "]".repeat(depth)));
            self.add("deep-map", true, format!("env: {}", "{a: ".repeat(depth)));
            self.add("deep-dash", true, format!("steps: {}x", "- ".repeat(depth)));
            self.add("deep-key", true, format!("{}x", "? ".repeat(depth)));
            if depth <= 1_000 {
                let lines: String = (0..depth).map(|at| format!("{}a:\n", " ".repeat(at))).collect();
                self.add("deep-block", true, lines);
            }
        }
        let mega = 1usize << 20;
        for size in [mega - 1, mega, mega + 1] {
            for (family, piece) in [
                ("big-comment", "# comment\n"),
                ("big-keys", "zz: 1\n"),
                ("big-list", "- a\n"),
                ("big-open", "["),
                ("big-quote", "'"),
            ] {
                self.add(family, size > mega, piece.repeat(size / piece.len() + 1)[..size].to_owned());
            }
            self.add("big-word", size > mega, format!("run: {}", "x".repeat(size)));
        }
        let keys: String = (0..30_000).map(|no| format!("k{no}: 1\n")).collect();
        self.add("many-keys", true, format!("run: x\n{keys}"));
        let steps: String = (0..20_000).map(|no| format!("- {{name: s{no}, run: x}}\n")).collect();
        self.add("many-steps", false, format!("steps:\n{steps}"));
        for len in [1u64 << 21, 100_000_000, 10_000_000_000] {
            let name = format!("{:04}-zeros.yaml", self.files.len());
            self.files.push(Bad { name, content: Content::Zeros(len), refused: true });
        }
    }
}
