use cadran_core::{Millis, Outcome, Retry};

/// The wait grows through this many failures and then stays: by then any factor that matters has met its cap, and
/// the loop has a bound.
const GROWTH_MAX: u32 = 1000;

/// Whether a failed attempt is worth another one. `failures` counts this one too.
pub(crate) fn is_allowed(retry: &Retry, outcome: &Outcome, failures: u32) -> bool {
    let code_fits = match outcome {
        Outcome::Exited(code) | Outcome::Reported(code, _) => {
            retry.exit_codes.is_empty() || retry.exit_codes.contains(code)
        }
        Outcome::Halted(_) => false,
        _ => retry.exit_codes.is_empty(),
    };
    code_fits && failures <= retry.limit
}

/// The wait behind the `failures`th failure: `interval × backoff^(failures − 1)`, at most `interval_ms_max`.
///
/// Multiplied out rather than raised to a power, because `powi` may round differently from one machine to another.
pub(crate) fn wait_ms(retry: &Retry, failures: u32) -> Millis {
    let cap = retry.interval_ms_max.max(0);
    let first = retry.interval_ms.clamp(0, cap);
    let grows = retry.backoff.is_finite() && retry.backoff >= 0.0 && retry.backoff != 1.0;
    if !grows {
        return first;
    }
    let mut wait = first as f64;
    for _ in 1..failures.min(GROWTH_MAX) {
        wait *= retry.backoff;
        if wait >= cap as f64 {
            return cap;
        }
    }
    wait as Millis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_cap() {
        let check = |interval_ms, backoff, interval_ms_max, expected: [Millis; 5]| {
            let retry = Retry { limit: 9, interval_ms, backoff, interval_ms_max, exit_codes: vec![] };
            let waits = [1, 2, 3, 4, u32::MAX].map(|failures| wait_ms(&retry, failures));
            assert_eq!(waits, expected, "{retry:?}");
        };
        check(100, 1.0, 1000, [100, 100, 100, 100, 100]);
        check(100, 2.0, 1000, [100, 200, 400, 800, 1000]);
        check(100, 1.5, 1000, [100, 150, 225, 337, 1000]);
        check(100, 0.5, 1000, [100, 50, 25, 12, 0]);
        check(100, 0.0, 1000, [100, 0, 0, 0, 0]);
        check(5000, 2.0, 1000, [1000, 1000, 1000, 1000, 1000]);
        check(0, 2.0, 1000, [0, 0, 0, 0, 0]);
        check(100, 1e300, 1000, [100, 1000, 1000, 1000, 1000]);
        // What no file says, but a caller could.
        check(100, f64::NAN, 1000, [100; 5]);
        check(100, f64::INFINITY, 1000, [100; 5]);
        check(100, -2.0, 1000, [100; 5]);
        check(-5, 2.0, -1, [0; 5]);
    }

    #[test]
    fn exit_codes_admit_only_exits() {
        let check = |exit_codes: &[i32], outcome, failures, expected| {
            let retry = Retry { limit: 2, exit_codes: exit_codes.into(), ..Retry::default() };
            assert_eq!(
                is_allowed(&retry, &outcome, failures),
                expected,
                "{exit_codes:?} {outcome:?} {failures}"
            );
        };
        check(&[], Outcome::Exited(1), 1, true);
        check(&[], Outcome::Exited(1), 2, true);
        check(&[], Outcome::Exited(1), 3, false);
        check(&[], Outcome::Signaled(9), 1, true);
        check(&[], Outcome::TimedOut, 1, true);
        check(&[], Outcome::NotStarted("no such file".into()), 1, true);
        check(&[], Outcome::Halted("share 1 was stopped".into()), 1, false);
        check(&[75], Outcome::Exited(75), 1, true);
        check(&[75], Outcome::Exited(1), 1, false);
        check(&[75], Outcome::Signaled(9), 1, false);
        check(&[75], Outcome::TimedOut, 1, false);
        check(&[75], Outcome::NotStarted("no such file".into()), 1, false);
    }
}
