use crate::Millis;

/// What happens to dues that were missed (more than ten seconds late).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Misfire {
    /// None of them runs; the gap is counted and recorded once.
    Skip,
    /// The newest runs; the rest are recorded as superseded.
    #[default]
    Once,
    /// Every one inside the catch-up window runs, oldest first, the newest 1000 at most.
    All,
}

/// What happens when a run is due while the same job is still active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// Both run.
    Allow,
    /// The new one is skipped.
    #[default]
    Skip,
    /// The new one waits its turn.
    Wait,
    /// The newest waits; those waiting before it are skipped.
    Latest,
    /// The active one is stopped, then the new one starts.
    Replace,
}

/// The rules of one job that decide whether and when a due becomes a started run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What happens to missed dues.
    pub misfire: Misfire,
    /// How far back missed dues are replayed under [`Misfire::All`]; 0 means no replay.
    pub catchup_window_ms: Millis,
    /// What happens when the job is still active.
    pub overlap: Overlap,
    /// Higher starts first among runs that leave the ring together.
    pub priority: i32,
    /// Skip a due when the job already succeeded since the due before it.
    pub skip_if_successful: bool,
    /// `retry: never`: a start is recorded before the order goes out, and a lost run is not started again.
    pub at_most_once: bool,
}

impl Policy {
    /// The policy of a file that says nothing.
    pub const DEFAULT: Policy = Policy {
        misfire: Misfire::Once,
        catchup_window_ms: 0,
        overlap: Overlap::Skip,
        priority: 0,
        skip_if_successful: false,
        at_most_once: false,
    };
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::DEFAULT
    }
}

macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $type {
            /// Every value with the word it has in files, rows and answers.
            pub const WORDS: &'static [($type, &'static str)] = &[$(($type::$variant, $word)),+];

            /// The word for this value.
            pub const fn word(self) -> &'static str {
                match self { $($type::$variant => $word),+ }
            }

            /// The value for a word.
            pub fn from_word(word: &str) -> Option<$type> {
                match word { $($word => Some($type::$variant),)+ _ => None }
            }
        }
    };
}
pub(crate) use words;

words!(Misfire { Skip = "skip", Once = "once", All = "all" });
words!(Overlap { Allow = "allow", Skip = "skip", Wait = "wait", Latest = "latest", Replace = "replace" });
