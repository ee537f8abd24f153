//! The fuzz targets over their seeds and changed seeds: a short look with every run of the tests.
//!
//! `CADRAN_FUZZ_ROUNDS` looks longer, and `CADRAN_FUZZ_SEED` elsewhere; `cargo xtask fuzz` looks with libFuzzer's eyes.

#[path = "../../../fuzz/src/lib.rs"]
#[allow(missing_docs, unreachable_pub, dead_code)]
mod targets;

#[path = "support/chance.rs"]
#[allow(dead_code, unreachable_pub)]
mod chance;

use std::panic::{AssertUnwindSafe, catch_unwind};

use chance::Chance;

/// Changed seeds for each target.
const ROUNDS: u64 = 3_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn targets_keep_their_promises() {
    let seed = number("CADRAN_FUZZ_SEED").unwrap_or(1);
    let rounds = number("CADRAN_FUZZ_ROUNDS").unwrap_or(ROUNDS);
    println!("CADRAN_FUZZ_SEED={seed}, {rounds} rounds");
    let mut failures = Vec::new();
    for (name, target, seeds) in targets::TARGETS {
        let mut chance = Chance::new(seed);
        let mut pool: Vec<Vec<u8>> = seeds.iter().map(|text| text.as_bytes().to_vec()).collect();
        if *name == "stored" {
            pool.extend(written());
        }
        for input in pool.clone() {
            play(name, *target, &input, &mut failures);
        }
        for _ in 0..rounds {
            let input = changed(&pool, &mut chance);
            play(name, *target, &input, &mut failures);
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures[..failures.len().min(10)].join("\n")
    );
}

/// Definitions as the server writes them.
fn written() -> Vec<Vec<u8>> {
    let texts =
        targets::TARGETS.iter().filter(|(name, ..)| *name == "job_file").flat_map(|(.., seeds)| seeds.iter());
    let read = |text: &&str| {
        cadran_spec::read_job(text.as_bytes(), "job", &cadran_spec::ReadOptions::default()).ok()
    };
    texts.filter_map(read).map(|parsed| parsed.definition.as_bytes().to_vec()).collect()
}

fn play(name: &str, target: fn(&[u8]), input: &[u8], failures: &mut Vec<String>) {
    if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
        failures.push(format!("{name}: {:?}", String::from_utf8_lossy(input)));
    }
}

fn changed(pool: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut pick = |limit: usize| chance.below(limit as u64) as usize;
    const PIECES: &[&[u8]] = &[
        b"*",
        b"/",
        b"-",
        b",",
        b"#",
        b"L",
        b"W",
        b"?",
        b" ",
        b"\n",
        b"\t",
        b"\0",
        b"\xff",
        b"%2e%2e%2f",
        b"..",
        b"99999999999999999999",
        b"-1",
        b"\"",
        b"'",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b"&a ",
        b"*a",
        b"!",
        b"|",
        b"\\u0000",
        b"null",
        b"1e400",
        b"TZ=",
        b"every ",
        b"at ",
        b"=",
        b"&",
        b"\xe2\x80\xae",
    ];
    let mut bytes = pool[pick(pool.len())].clone();
    for _ in 0..1 + pick(5) {
        let at = pick(bytes.len() + 1);
        match pick(5) {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..at, PIECES[pick(PIECES.len())].iter().copied())),
            2 => drop(bytes.drain(at..(at + pick(8)).min(bytes.len()))),
            3 if at < bytes.len() => bytes[at] = pick(256) as u8,
            _ => {
                let other = &pool[pick(pool.len())];
                let from = pick(other.len() + 1);
                let piece = other[from..(from + pick(30)).min(other.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}
