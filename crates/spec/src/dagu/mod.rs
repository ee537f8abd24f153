//! Job files in Dagu's form: a whole file is read by Dagu's rules, or none of it.
//!
//! The tree of such a file is rewritten into the tree of Cadran's own form, which is then read like every other. The rules
//! are those of Dagu 1.17 to 2.6 unless the file or its folder says `dagu-2.7`: steps run one after another, a shell that
//! nobody named ends at the first failure, and the file's folder is the working directory.

mod emit;
mod http;
mod job;
mod keys;
mod repeat;
mod step;
mod text;
mod tree;
mod warn;

use std::path::Path;

use cadran_core::Zone;

use crate::diagnostic::Code;
use crate::read::{Findings, Resources, snake_case};
use crate::tree::{Kind, Node, Span};

pub(crate) use warn::warn_of_other_meaning;

/// By whose rules a job file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileDialect {
    /// Cadran's own.
    Cadran,
    /// Those of Dagu 1.17 to 2.6: steps that say nothing about their order run one after another.
    Dagu,
    /// Those of Dagu 2.7 and later: such steps run in parallel.
    Dagu27,
}

impl FileDialect {
    /// As it is written after `dialect:` and `--as`.
    pub const WORDS: &'static [(&'static str, FileDialect)] =
        &[("cadran", FileDialect::Cadran), ("dagu", FileDialect::Dagu), ("dagu-2.7", FileDialect::Dagu27)];

    /// The dialect with this name.
    pub fn from_word(word: &str) -> Option<FileDialect> {
        FileDialect::WORDS.iter().find(|(known, _)| *known == word).map(|(_, dialect)| *dialect)
    }
}

/// What Dagu takes from the machine it runs on.
#[derive(Clone, Debug)]
pub struct DaguOptions {
    /// The shell of steps that name none, without arguments.
    pub shell: String,
    /// The zone of its schedules.
    pub zone: Zone,
}

impl Default for DaguOptions {
    fn default() -> DaguOptions {
        DaguOptions { shell: "/bin/sh".to_owned(), zone: Zone::utc() }
    }
}

/// Something that was rewritten, for the report of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The line it stands on.
    pub line: u32,
    /// What became of it.
    pub what: String,
}

/// A file that was rewritten.
pub(crate) struct Translated {
    pub(crate) root: Node,
    pub(crate) rewritten: Vec<Rewritten>,
}

impl Translated {
    /// As a job file.
    pub(crate) fn yaml(&self) -> String {
        emit::yaml(&self.root)
    }
}

/// By whose rules a file is to be read: what it says itself, else what was set for it, else what its keys tell.
pub(crate) fn dialect_of(root: &Node, set: Option<FileDialect>) -> FileDialect {
    let said = value_of(root, "dialect").and_then(|word| match &word.kind {
        Kind::Scalar(word) => FileDialect::from_word(&word.text),
        _ => None,
    });
    said.or(set).unwrap_or_else(|| if tells_of_dagu(root) { FileDialect::Dagu } else { FileDialect::Cadran })
}

/// Whether a file has key names that only Dagu has, and none that only Cadran has.
fn tells_of_dagu(root: &Node) -> bool {
    let steps = value_of(root, "steps");
    let items: Vec<&Node> = match steps.map(|steps| &steps.kind) {
        Some(Kind::List(items)) => items.iter().collect(),
        Some(Kind::Map(entries)) => entries.iter().map(|(_, step)| step).collect(),
        _ => Vec::new(),
    };
    let has = |node: &Node, names: &[&str]| {
        match &node.kind {
        Kind::Map(entries) => entries.iter().any(|(key, _)| {
            matches!(&key.kind, Kind::Scalar(key) if names.contains(&snake_case(&key.text).as_str()))
        }),
        _ => false,
    }
    };
    let own = has(root, keys::OWN_JOB) || items.iter().any(|step| has(step, keys::OWN_STEP));
    !own && (has(root, keys::TELLING_JOB) || items.iter().any(|step| has(step, keys::TELLING_STEP)))
}

fn value_of<'n>(root: &'n Node, name: &str) -> Option<&'n Node> {
    let Kind::Map(entries) = &root.kind else { return None };
    let is = |key: &Node| matches!(&key.kind, Kind::Scalar(key) if snake_case(&key.text) == name);
    entries.iter().find(|(key, _)| is(key)).map(|(_, value)| value)
}

/// Rewrites a file. What cannot be carried out as Dagu does is an error among the findings.
pub(crate) fn translate(
    root: &Node,
    dialect: FileDialect,
    options: &DaguOptions,
    folder: Option<&Path>,
    resources: &Resources,
    findings: &mut Findings,
) -> Option<Translated> {
    let mut translator = Translator {
        options,
        folder,
        resources,
        is_chain: dialect != FileDialect::Dagu27,
        setup: Vec::new(),
        late: Vec::new(),
        variables: Vec::new(),
        steps: Vec::new(),
        watched: Vec::new(),
        consts: Vec::new(),
        rewritten: Vec::new(),
        findings,
    };
    let root = translator.job(root)?;
    Some(Translated { root, rewritten: translator.rewritten })
}

/// A file while it is rewritten.
struct Translator<'a> {
    options: &'a DaguOptions,
    folder: Option<&'a Path>,
    resources: &'a Resources,
    /// Whether steps run one after another.
    is_chain: bool,
    /// Steps that come before those of the file: they find out values that Dagu evaluates before a run.
    setup: Vec<Node>,
    /// Variables whose values are found out by those steps.
    late: Vec<String>,
    /// Parameters and outputs: values that Dagu puts into the text of scripts.
    variables: Vec<String>,
    /// Steps by their id and by their name: the word, and the step's number.
    steps: Vec<(String, usize)>,
    /// Steps of which another one reads something: the number, and what.
    watched: Vec<(usize, Watch)>,
    consts: Vec<(String, String)>,
    rewritten: Vec<Rewritten>,
    findings: &'a mut Findings,
}

/// What one step may read of another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Stdout,
    Stderr,
    ExitCode,
}

impl Watch {
    fn from_path(path: &str) -> Option<Watch> {
        match path {
            ".stdout" => Some(Watch::Stdout),
            ".stderr" => Some(Watch::Stderr),
            ".exit_code" | ".exitCode" => Some(Watch::ExitCode),
            _ => None,
        }
    }

    /// The file in the run's own directory that it is kept in.
    fn file(self, step: usize) -> String {
        let ending = match self {
            Watch::Stdout => "stdout",
            Watch::Stderr => "stderr",
            Watch::ExitCode => "exit_code",
        };
        format!("${{CADRAN_LOG_DIR}}/step-{step}.{ending}")
    }
}

impl Translator<'_> {
    fn note(&mut self, span: Span, what: impl Into<String>) {
        self.rewritten.push(Rewritten { line: span.line, what: what.into() });
    }

    fn refuse(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.findings.error_help(span, Code::Unsupported, message, help);
    }
}
