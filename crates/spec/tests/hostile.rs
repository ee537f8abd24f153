//! Any bytes give a job or an error, in bounded time and memory.

use cadran_spec::{Code, Decoder, Diagnostic, FILE_BYTES_MAX, ReadOptions, read_job};

fn read(bytes: &[u8]) -> Result<(), Vec<Diagnostic>> {
    read_job(bytes, "job", &ReadOptions::default()).map(drop)
}

#[track_caller]
fn check(bytes: &[u8], code: Code) {
    let found = read(bytes).unwrap_err();
    assert_eq!(found[0].code, code, "{}", found[0]);
    assert!(found.len() <= 20);
    for found in &found {
        assert!(found.message.len() < 2000, "{}", found.message.len());
    }
}

/// The largest text that is read, filled with a repeated piece.
fn filled(head: &str, piece: &str) -> String {
    let mut text = head.to_owned();
    while text.len() + piece.len() < FILE_BYTES_MAX {
        text.push_str(piece);
    }
    text
}

#[test]
fn size_and_depth() {
    check(&vec![b'a'; FILE_BYTES_MAX + 1], Code::Limit);
    check("[".repeat(100_000).as_bytes(), Code::Limit);
    check(format!("run: {}", "{a: ".repeat(100_000)).as_bytes(), Code::Limit);
    check(filled("run: ", "[").as_bytes(), Code::Limit);
    let deep: String = (0..1_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    check(deep.as_bytes(), Code::Limit);
    let dashes = format!("a: {}x", "- ".repeat(10_000));
    assert!(read(dashes.as_bytes()).is_err());
    // 60 levels are still read; they are just no job.
    check(format!("run: {}x{}", "[".repeat(60), "]".repeat(60)).as_bytes(), Code::WrongType);
}

#[test]
fn alias_bombs() {
    let mut bomb = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..=9 {
        let before = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 9].join(", ")));
    }
    check(bomb.as_bytes(), Code::Limit);
    // The same with maps and merges.
    let mut bomb = String::from("a0: &a0 {k: lol, l: lol}\n");
    for level in 1..=30 {
        let before = level - 1;
        bomb.push_str(&format!("a{level}: &a{level} {{x: *a{before}, y: *a{before}}}\n"));
    }
    check(bomb.as_bytes(), Code::Limit);
    // Few nodes, much text.
    let long = "x".repeat(500_000);
    check(format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 100].join(", ")).as_bytes(), Code::Limit);
    // An alias to what contains it.
    check(b"a: &a [*a]\n", Code::Yaml);
    check(b"a: &a\n  b: *a\n", Code::Yaml);
    check(b"a: *nobody\n", Code::Yaml);
}

#[test]
fn aliases_and_merges_work_in_small() {
    let text = "env: &e {A: 1}\nsteps:\n  - &first {name: a, run: x, env: *e}\n  - <<: *first\n    name: b\n";
    let parsed = read_job(text.as_bytes(), "job", &ReadOptions::default()).unwrap();
    let steps = &parsed.job.body.steps;
    assert_eq!(steps[1].name, "b");
    assert_eq!(steps[1].work, steps[0].work);
    assert_eq!(steps[1].env, [("A".to_owned(), "1".to_owned())]);
}

#[test]
fn many_of_everything() {
    // Each of these once made some list be searched again and again, or could have.
    check(filled("run: x\n", "zzzz: 1\n").as_bytes(), Code::Limit);
    check(format!("run: x\n{}", "zzzz: 1\n".repeat(40_000)).as_bytes(), Code::UnknownKey);
    let keys: String = (0..30_000).map(|at| format!("k{at}: 1\n")).collect();
    check(format!("run: x\n{keys}").as_bytes(), Code::UnknownKey);
    let steps: String =
        (0..12_000).map(|at| format!("- {{name: s{at}, run: x, depends: q{at}}}\n")).collect();
    check(format!("steps:\n{steps}").as_bytes(), Code::Limit);
    let chain: String =
        (0..9_000).map(|at| format!("- {{name: s{at}, run: x, depends: s{}}}\n", (at + 1) % 9_000)).collect();
    check(format!("steps:\n{chain}").as_bytes(), Code::Depends);
    let schedules: String = (0..40_000).map(|_| "- CRON_TZ=Xx/Yy 1 1 1 1 1\n").collect();
    check(format!("run: x\nschedule:\n{schedules}").as_bytes(), Code::Schedule);
    let params: String = (0..40_000).map(|at| format!("- A{at}=1\n")).collect();
    check(format!("run: x\nparams:\n{params}").as_bytes(), Code::Limit);
    let words = filled("run: x\nparams: '", "a=b ") + "'";
    check(words.as_bytes(), Code::Limit);
    let labels = filled("run: x\nlabels: '", "a,b,c,") + "'";
    check(labels.as_bytes(), Code::Limit);
    let flow: String = (0..40_000).map(|_| "- [\n x]\n").collect();
    assert!(read(format!("steps:\n{flow}").as_bytes()).is_err());
    check(filled("a: '", "''").as_bytes(), Code::Yaml);
    assert!(read(filled("", "? a\n").as_bytes()).is_err());
    assert!(read(filled("", "- a: b\n  ").as_bytes()).is_err());
    assert!(read(filled("", "a: b: ").as_bytes()).is_err());
    assert!(read(filled("", "&a ").as_bytes()).is_err());
    assert!(read(filled("", "!a ").as_bytes()).is_err());
    assert!(read(filled("", "# comment\n").as_bytes()).is_err());
    assert!(read(filled("", "%a b\n").as_bytes()).is_err());
    assert!(read(filled("", "---\n").as_bytes()).is_err());
    assert!(read(filled("run: |\n", "  echo\n").as_bytes()).is_ok());
    let depends: String = (0..20_000).map(|_| "s,").collect();
    check(format!("steps:\n- {{name: t, run: x, depends: [{depends}]}}\n").as_bytes(), Code::Depends);
}

/// A small generator, so that a failure repeats: xorshift.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

#[test]
fn mutated_files_give_a_job_or_errors() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/jobs");
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let pieces: [&[u8]; 24] = [
        b"\n",
        b"  ",
        b"- ",
        b": ",
        b"{",
        b"}",
        b"[",
        b"]",
        b"'",
        b"\"",
        b"|\n",
        b">\n",
        b"&a ",
        b"*a",
        b"!x ",
        b"? ",
        b"#",
        b"---\n",
        b"\t",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"<<: *a\n",
        b"99999999999999999999",
    ];
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let (mut good, mut decoder) = (0, Decoder::default());
    for round in 0..8_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..1 + chance.below(6) {
            let at = chance.below(bytes.len());
            match chance.below(5) {
                0 => bytes.truncate(at),
                1 => drop(bytes.splice(at..at, pieces[chance.below(pieces.len())].iter().copied())),
                2 => drop(bytes.drain(at..(at + chance.below(20)).min(bytes.len()))),
                3 if !bytes.is_empty() => bytes[at] = chance.below(256) as u8,
                _ => {
                    let other = &seeds[chance.below(seeds.len())];
                    let from = chance.below(other.len());
                    let piece = other[from..(from + chance.below(60)).min(other.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match read_job(&bytes, "job", &ReadOptions::default()) {
            Ok(parsed) => {
                // Whatever the reader can produce survives the store.
                good += 1;
                let job = decoder.decode(parsed.job.name.clone(), &parsed.definition).unwrap();
                assert_eq!(
                    (&job.body, &job.schedules),
                    (&parsed.job.body, &parsed.job.schedules),
                    "round {round}"
                );
                assert_eq!(job.policy, parsed.job.policy, "round {round}");
            }
            Err(found) => {
                assert!(!found.is_empty() && found.len() <= 20, "round {round}");
                for found in found {
                    let shown = found.render("f.yaml", &text, false);
                    assert!(!shown.contains('\x1b') && shown.len() < 8_000, "round {round}: {shown}");
                    assert!(found.line as usize <= text.lines().count() + 1, "round {round}: {found}");
                }
            }
        }
    }
    // The mutations are gentle enough to reach what lies behind the parser.
    assert!(good > 200, "{good}");
}
