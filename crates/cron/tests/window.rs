//! Schedules that count from one instant to another, against the same without limits.

use cadran_cron::{Dialect, Schedule, Zone};

#[test]
fn a_window_leaves_out_what_lies_before_and_behind_it() {
    let zone = Zone::get("Europe/Paris").expect("a zone");
    // Around a change of the clocks, 2026-03-29T01:00:00Z.
    let (start, end) = (1_774_700_000_000, 1_774_800_000_000);
    for text in ["*/7 * * * *", "30 2 * * *", "every 90s", "at 2026-03-29T04:00:00Z", "* * * * * *"] {
        let plain = Schedule::parse(text, &zone, Dialect::Cadran).expect("a schedule");
        for (from, until) in [
            (None, None),
            (Some(1_774_746_000_000), None),
            (None, Some(1_774_746_000_000)),
            (Some(1_774_745_999_999), Some(1_774_746_000_001)),
            (Some(1_774_750_000_123), Some(1_774_760_000_000)),
            (Some(end + 1), None),
            (None, Some(start - 1)),
        ] {
            let limited = plain.clone().within(from, until);
            let is_in =
                |due: &i64| from.is_none_or(|from| *due >= from) && until.is_none_or(|until| *due <= until);
            let expected: Vec<i64> = plain.between(start, end).filter(is_in).collect();
            let case = format!("{text} from {from:?} until {until:?}");
            assert_eq!(limited.between(start, end).collect::<Vec<_>>(), expected, "{case}");
            assert_eq!(limited.count(start, end), expected.len() as u64, "{case}");
            let mut walked = Vec::new();
            limited.walk(start, end, &mut |due| walked.push(due));
            assert_eq!(walked, expected, "{case}");
            let stepped: Vec<i64> = std::iter::successors(limited.next(start - 1), |due| limited.next(*due))
                .take_while(|due| *due < end)
                .collect();
            assert_eq!(stepped, expected, "{case}");
            let last = limited.previous(end).filter(|due| *due >= start);
            assert_eq!(last, expected.last().copied(), "{case}");
        }
    }
}

#[test]
fn a_step_beyond_its_range_names_one_value_and_is_warned_of() {
    let check = |text: &str, same: &str, warned: Option<(usize, usize, &str)>| {
        let parse = |text: &str| Schedule::parse(text, &Zone::utc(), Dialect::Cadran).expect("a schedule");
        let (start, end) = (1_700_000_000_000, 1_710_000_000_000);
        let dues = |text: &str| parse(text).between(start, end).collect::<Vec<_>>();
        assert_eq!(dues(text), dues(same), "{text}");
        let warnings = Schedule::warnings(text, Dialect::Cadran);
        let found = warnings.first().map(|found| (found.column(), found.len(), found.to_string()));
        match (warned, found) {
            (None, None) => {}
            (Some((column, len, part)), Some((at, found, message))) => {
                assert_eq!((column, len), (at, found), "{text}");
                assert!(message.contains(part), "{message}");
            }
            (expected, found) => panic!("{text}: {expected:?}, {found:?}"),
        }
    };
    check("41-59/24 * * * *", "41 * * * *", Some((7, 2, "matches `41` alone")));
    check("0 8-10/5 * * *", "0 8 * * *", Some((8, 1, "exceeds the range `8-10`")));
    check("TZ=UTC 0 8-10/5 * * *", "0 8 * * *", Some((15, 1, "`8`")));
    check("0 0 * * MON-WED/5", "0 0 * * MON", Some((17, 1, "`MON`")));
    check("41-59/18 * * * *", "41,59 * * * *", None);
    check("*/20 * * * *", "0,20,40 * * * *", None);
    check("every 5m", "every 5m", None);
    assert_eq!(Schedule::warnings("nonsense", Dialect::Cadran), []);
}
