//! Anything as input: a schedule or an error with its place, never a panic or a search without end.

use cadran_cron::{Dialect, INSTANT_END, Schedule, Zone, parse_duration};

/// A small generator with a fixed seed (splitmix64).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

fn swallow(text: &str, zones: &[Zone; 2], seeded: &mut Seeded) -> bool {
    // Half of the texts are read as Cadran's own, the first of the list.
    let dialect = Dialect::ALL[seeded.below(10).saturating_sub(5)];
    let _ = parse_duration(text);
    match Schedule::parse(text, &zones[seeded.below(2)], dialect) {
        Ok(schedule) => {
            let due = schedule.next(-1).unwrap_or_else(|| panic!("`{text}` was accepted but never runs"));
            assert!((0..INSTANT_END).contains(&due));
            assert!(!schedule.describe().is_empty());
            let after = (seeded.below(usize::MAX) as i64).wrapping_mul(3);
            let _ = (
                schedule.next(after),
                schedule.previous(after),
                schedule.count(after, after.wrapping_add(1 << 40)),
            );
            true
        }
        Err(error) => {
            let chars = text.chars().count();
            assert!(error.column() >= 1 && error.column() - 1 + error.len() <= chars, "`{text}`: {error:?}");
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

#[test]
fn random_bytes() {
    let mut seeded = Seeded(1);
    let zones = [Zone::utc(), Zone::get("Europe/Paris").unwrap()];
    for _ in 0..100_000 {
        let len = seeded.below(24);
        let bytes: Vec<u8> = (0..len).map(|_| seeded.below(256) as u8).collect();
        swallow(&String::from_utf8_lossy(&bytes), &zones, &mut seeded);
    }
}

#[test]
fn mutated_expressions() {
    const SEEDS: [&str; 14] = [
        "*/15 9-17 * * MON-FRI",
        "0 0 13 * FRI",
        "30 15 10 L-3 6 ? 2030-2032/2",
        "0 0 15W,LW,1W * *",
        "0 0 * * FRI#2,5L",
        "CRON_TZ=Europe/Paris 0 22-2/2 29 2 *",
        "TZ=UTC @daily",
        "every 1h30m from 2026-01-01T00:00:00Z",
        "@every 250ms",
        "at 2026-11-15T10:00:00.125+02:00",
        "2026-11-15T10:00",
        "0 0 12 ? * 6L",
        "0,15,30,45 1,2,3 1,2,3 JAN,FEB SUN,7,0",
        "59 59 23 31 12 7 2199",
    ];
    // Letters that mean something here, and some that mean trouble.
    const LETTERS: &str = "0123456789*/-,#?LW @=.:TZ+ \t\nMONJANéß😀\u{0}\u{a0}9999999999";
    let letters: Vec<char> = LETTERS.chars().collect();
    let mut seeded = Seeded(2);
    let zones = [Zone::utc(), Zone::get("Pacific/Apia").unwrap()];
    let mut accepted = 0;
    for _ in 0..100_000 {
        let mut text: Vec<char> = SEEDS[seeded.below(SEEDS.len())].chars().collect();
        for _ in 0..1 + seeded.below(3) {
            let at = seeded.below(text.len().max(1));
            let letter = letters[seeded.below(letters.len())];
            match seeded.below(4) {
                0 => text.insert(at.min(text.len()), letter),
                1 if !text.is_empty() => drop(text.remove(at)),
                2 if !text.is_empty() => text[at] = letter,
                _ => {
                    let other: Vec<char> = SEEDS[seeded.below(SEEDS.len())].chars().collect();
                    text.truncate(at);
                    text.extend(&other[seeded.below(other.len())..]);
                }
            }
        }
        accepted += usize::from(swallow(&text.iter().collect::<String>(), &zones, &mut seeded));
    }
    assert!(accepted > 4_000, "only {accepted} of the mutations were schedules");
}
