//! Servers on one record: each has a number of its own, which is part of every id it gives out.

use cadran_core::Millis;

/// Numbers of servers: ten bits of an id.
pub(crate) const NUMBERS: u16 = 1024;

/// A server that was here: its number, its name, and when it last started.
pub(crate) type ServerRow = (u16, String, Millis);

pub(crate) const ALL: &str = "select number, name, seen_at from servers order by number";
pub(crate) const PUT: &str = "insert into servers (number, name, seen_at) values ($1, $2, $3) \
     on conflict (number) do update set name = excluded.name, seen_at = excluded.seen_at";

/// The number of the server with this name: the one it had, or else the lowest that nobody has. When all are taken, the
/// one whose server was not started for the longest time: ids rise with time, and its own lie far behind.
pub(crate) fn number(known: &[ServerRow], name: &str) -> u16 {
    if let Some((number, ..)) = known.iter().find(|(_, other, _)| other == name) {
        return *number;
    }
    let free = (0..NUMBERS).find(|number| known.iter().all(|(taken, ..)| taken != number));
    let eldest = known.iter().min_by_key(|(number, _, seen_at)| (*seen_at, *number));
    free.or(eldest.map(|(number, ..)| *number)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_given_and_taken_over() {
        let known = |rows: &[(u16, &str, Millis)]| -> Vec<ServerRow> {
            rows.iter().map(|(number, name, at)| (*number, (*name).to_owned(), *at)).collect()
        };
        assert_eq!(number(&[], "a"), 0);
        assert_eq!(number(&known(&[(0, "a", 5), (1, "b", 6)]), "b"), 1);
        assert_eq!(number(&known(&[(0, "a", 5), (2, "b", 6)]), "c"), 1);
        let mut all: Vec<ServerRow> = (0..NUMBERS).map(|no| (no, format!("s{no}"), 100)).collect();
        all[77].2 = 3;
        assert_eq!((number(&all, "new"), number(&all, "s5")), (77, 5));
    }
}
