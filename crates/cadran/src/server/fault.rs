//! Faults on purpose, for tests of what the server does about them. A release build contains none of this.
//!
//! `CADRAN_TEST_FAULT=PLACE=KIND@FILE`, where KIND is `panic` or `stall`: the fault happens at the place as soon as the
//! file is there; a stall lasts until the file is gone.

/// A place where a fault can be asked for.
#[cfg(debug_assertions)]
pub(super) fn point(place: &str) {
    use std::sync::OnceLock;
    static ASKED: OnceLock<Option<(String, String, std::path::PathBuf)>> = OnceLock::new();
    let asked = ASKED.get_or_init(|| {
        let text = std::env::var("CADRAN_TEST_FAULT").ok()?;
        let (place, rest) = text.split_once('=')?;
        let (kind, file) = rest.split_once('@')?;
        Some((place.to_owned(), kind.to_owned(), file.into()))
    });
    let Some((_, kind, file)) = asked.as_ref().filter(|(asked, ..)| asked == place) else { return };
    if kind == "panic" {
        assert!(!file.exists(), "a panic was asked for in the {place}");
    }
    while kind == "stall" && file.exists() {
        #[allow(clippy::disallowed_methods)] // a stall is what was asked for
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A place where a debug build can be asked for a fault.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(super) fn point(_place: &str) {}
