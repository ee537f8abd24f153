//! The notations in use, as flags that differ.

/// A cron notation, chosen by name.
///
/// | | fields | weekdays | both day fields given | `L` `W` `#` | wrapping ranges | `@daily` | `every`, `at` |
/// |---|---|---|---|---|---|---|---|
/// | `cadran` | 5, 6, 7 | 0–7, Sunday 0 and 7 | either one | yes | yes | yes | yes |
/// | `seconds` | 6, 7 | as `cadran` | either one | yes | yes | yes | yes |
/// | `vixie` | 5 | 0–7 | either one; both when one begins with `*` | no | no | yes | no |
/// | `quartz` | 6, 7 | 1–7, Sunday 1 | refused: exactly one must be `?` | yes | yes | no | no |
/// | `dagu` | 5 | 0–6, Sunday 0 | either one | no | no | no | no |
///
/// `dagu` also reads the clock literally: a time inside a gap is skipped, one inside a fold comes twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Cadran's own: everything that has one clear meaning.
    #[default]
    Cadran,
    /// The classic crontab.
    Vixie,
    /// Cadran's own with the seconds field required.
    Seconds,
    /// Quartz, as XXL-JOB uses it.
    Quartz,
    /// Dagu's.
    Dagu,
}

impl Dialect {
    /// All dialects, in the order of their names' table.
    pub const ALL: [Dialect; 5] =
        [Dialect::Cadran, Dialect::Vixie, Dialect::Seconds, Dialect::Quartz, Dialect::Dagu];

    /// The dialect of this name, in any case; `xxl-job` is another name of `quartz`.
    pub fn from_name(name: &str) -> Option<Dialect> {
        if name.eq_ignore_ascii_case("xxl-job") {
            return Some(Dialect::Quartz);
        }
        Dialect::ALL.into_iter().find(|dialect| dialect.name().eq_ignore_ascii_case(name))
    }

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Cadran => "cadran",
            Dialect::Vixie => "vixie",
            Dialect::Seconds => "seconds",
            Dialect::Quartz => "quartz",
            Dialect::Dagu => "dagu",
        }
    }

    pub(crate) fn rules(self) -> Rules {
        let cadran = Rules {
            counts: &[5, 6, 7],
            weekday_min: 0,
            weekday_max: 7,
            sunday: 0,
            marks: true,
            wraps: true,
            open_steps: true,
            question: Question::Anywhere,
            star_one_is_star: false,
            star_step_is_star: false,
            nicknames: true,
            extensions: true,
            literal_clock: false,
        };
        let plain = Rules { counts: &[5], marks: false, wraps: false, extensions: false, ..cadran };
        match self {
            Dialect::Cadran => cadran,
            Dialect::Seconds => Rules { counts: &[6, 7], ..cadran },
            Dialect::Vixie => Rules {
                open_steps: false,
                question: Question::Nowhere,
                star_one_is_star: true,
                star_step_is_star: true,
                ..plain
            },
            Dialect::Quartz => Rules {
                counts: &[6, 7],
                weekday_min: 1,
                sunday: 1,
                question: Question::OneDayField,
                nicknames: false,
                extensions: false,
                ..cadran
            },
            Dialect::Dagu => Rules {
                weekday_max: 6,
                nicknames: false,
                star_one_is_star: true,
                literal_clock: true,
                ..plain
            },
        }
    }
}

/// Where `?` may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Nowhere.
    Nowhere,
    /// In any field, with the meaning of `*`.
    Anywhere,
    /// In exactly one of the two day fields, and it must stand there.
    OneDayField,
}

/// The flags of one dialect.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Numbers of fields accepted.
    pub(crate) counts: &'static [usize],
    pub(crate) weekday_min: u32,
    pub(crate) weekday_max: u32,
    /// The number written for Sunday; 7 is Sunday too where `sunday` is 0 and the range allows it.
    pub(crate) sunday: u32,
    /// `L`, `W` and `#`.
    pub(crate) marks: bool,
    /// Ranges such as `22-2` and `FRI-MON`.
    pub(crate) wraps: bool,
    /// `a/n` for `a-max/n`.
    pub(crate) open_steps: bool,
    pub(crate) question: Question,
    /// Whether `*/1` in a day field counts as unrestricted.
    pub(crate) star_one_is_star: bool,
    /// Whether `*/n` in a day field counts as unrestricted.
    pub(crate) star_step_is_star: bool,
    /// `@daily` and its kind.
    pub(crate) nicknames: bool,
    /// `every`, `@every` and `at`.
    pub(crate) extensions: bool,
    /// Fixed times take no shelter from gaps and folds.
    pub(crate) literal_clock: bool,
}
