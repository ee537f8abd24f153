//! What a crash looks like in the output of a sanitiser: its kind, and the first frame that belongs to the project.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One crash, as a program printed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashSignature {
    /// As in `heap-buffer-overflow`; `crash` when nobody said.
    pub kind: String,
    /// The first frame of the project, or `None` when the output names none.
    pub frame: Option<Frame>,
}

/// A place in the project. Lines are left out: they move with every edit, and a bucket should not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// Without its parameters.
    pub function: String,
    /// Relative to the root of the project.
    pub file: String,
}

/// How frames of the project are known.
#[derive(Clone, Debug, Default)]
pub struct Project {
    /// Where it was built; `None` when nobody wrote that down.
    pub root: Option<PathBuf>,
    /// Functions that never name a bucket: checks and wrappers that many crashes go through.
    pub ignored: Vec<String>,
}

/// Frames looked at. The interesting one is near the top; a stack overflow has thousands.
const FRAMES_MAX: usize = 256;

/// Where compilers and systems keep their own sources, for builds whose root is not known.
const FOREIGN: [&str; 5] = ["/usr/", "/lib/", "/compiler-rt/", "/libfuzzer/", "../sysdeps/"];

impl CrashSignature {
    /// Reads what a program printed. Only the first stack counts: later ones say where memory came from.
    pub fn read(output: &str, project: &Project) -> CrashSignature {
        let mut kind = None;
        let mut frame = None;
        let mut in_stack = false;
        for line in output.lines() {
            let line = line.trim();
            if kind.is_none() {
                kind = kind_of(line);
            }
            // A stack before the error is somebody else's talk.
            let Some(place) = (kind.is_some()).then(|| stack_line(line)).flatten() else {
                if in_stack {
                    break;
                }
                continue;
            };
            in_stack = true;
            let (number, function, file) = place;
            if number > FRAMES_MAX {
                break;
            }
            if frame.is_none()
                && let Some(file) = project.own(&file)
                && !project.ignored.contains(&function)
            {
                frame = Some(Frame { function, file });
            }
        }
        CrashSignature { kind: kind.unwrap_or_else(|| "crash".into()), frame }
    }

    /// For people.
    pub fn title(&self) -> String {
        match &self.frame {
            Some(frame) => format!("{} in {}, {}", self.kind, frame.function, frame.file),
            None => self.kind.clone(),
        }
    }
}

impl Project {
    /// The path relative to the root, when the file belongs to the project.
    fn own(&self, file: &str) -> Option<String> {
        // A frame without its source.
        if file.is_empty() {
            return None;
        }
        let path = clean(Path::new(file));
        let relative = match &self.root {
            Some(root) => path.strip_prefix(root).ok()?.to_path_buf(),
            None if path.is_absolute() && FOREIGN.iter().any(|place| file.contains(place)) => return None,
            None => path,
        };
        Some(relative.display().to_string())
    }
}

/// `a/../b` is `b`, as text: the files need not be on this machine.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if clean.file_name().is_some() => drop(clean.pop()),
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

/// The kind that a line announces.
fn kind_of(line: &str) -> Option<String> {
    const HEADS: [&str; 7] = [
        "ERROR: AddressSanitizer: ",
        "ERROR: LeakSanitizer: ",
        "ERROR: libFuzzer: ",
        "ERROR: UndefinedBehaviorSanitizer: ",
        "WARNING: MemorySanitizer: ",
        "WARNING: ThreadSanitizer: ",
        "ERROR: HWAddressSanitizer: ",
    ];
    if let Some((_, rest)) = HEADS.iter().find_map(|head| line.split_once(head)) {
        let words = ["detected memory leaks", "deadly signal", "data race"];
        let whole = words.iter().find(|words| rest.starts_with(**words));
        let word = whole.copied().or_else(|| rest.split([' ', '(']).next()).unwrap_or_default();
        return Some(word.replace(' ', "-"));
    }
    line.contains(": runtime error: ").then(|| "undefined-behavior".into())
}

/// Number, function without parameters, and file of `#1 0x55d4 in f(int) /src/a.cpp:3:7`.
fn stack_line(line: &str) -> Option<(usize, String, String)> {
    let (number, rest) = line.strip_prefix('#')?.split_once(' ')?;
    let number = number.parse().ok()?;
    let (_, rest) = rest.trim_start().split_once(" in ")?;
    let Some((function, place)) =
        rest.split_once(" /").map(|(function, place)| (function, format!("/{place}")))
    else {
        return Some((number, name(rest), String::new()));
    };
    // Line and column, when they are there.
    let file = place.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
    let file = if place.len() > file.len() { file } else { &place };
    Some((number, name(function), file.to_owned()))
}

/// `(anonymous namespace)::f(int)` is `f`; `operator()` keeps its brackets.
fn name(function: &str) -> String {
    let function = function.replace("(anonymous namespace)::", "");
    let from = function.find("operator()").map_or(0, |at| at + "operator()".len());
    let end = function[from..].find('(').map_or(function.len(), |at| from + at);
    function[..end].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERFLOW: &str = "\
INFO: Seed: 1
==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602 at pc 0x55 bp 0x7f sp 0x7f
WRITE of size 17 at 0x602 thread T0
    #0 0x55a in __asan_memcpy (/build/fuzz+0xdef89) (BuildId: 94)
    #1 0x55b in std::unique_ptr<char[]>::get() const /usr/include/c++/12/bits/unique_ptr.h:1080:30
    #2 0x55c in (anonymous namespace)::read_title((anonymous namespace)::Reader, Summary&) /work/tree/src/record.cpp:31:5
    #3 0x55d in read_record(unsigned char const*, unsigned long, Summary&) /work/tree/src/../src/record.cpp:65:14
    #4 0x55e in LLVMFuzzerTestOneInput /work/tree/fuzz/record_fuzzer.cpp:5:5

0x602 is located 0 bytes to the right of 16-byte region [0x602,0x603)
allocated by thread T0 here:
    #0 0x55f in operator new[](unsigned long) (/build/fuzz+0x11)
    #1 0x560 in other() /work/tree/src/other.cpp:1:1
";

    fn project(root: Option<&str>, ignored: &[&str]) -> Project {
        Project { root: root.map(Into::into), ignored: ignored.iter().map(|name| (*name).into()).collect() }
    }

    #[test]
    fn the_first_frame_of_the_project_is_found() {
        let check = |output: &str, project: &Project, title: &str| {
            assert_eq!(CrashSignature::read(output, project).title(), title);
        };
        let ours = project(Some("/work/tree"), &[]);
        check(OVERFLOW, &ours, "heap-buffer-overflow in read_title, src/record.cpp");
        check(OVERFLOW, &project(None, &[]), "heap-buffer-overflow in read_title, /work/tree/src/record.cpp");
        let skips = project(Some("/work/tree"), &["read_title"]);
        check(OVERFLOW, &skips, "heap-buffer-overflow in read_record, src/record.cpp");
        // Another tree's build, or no symbols: no claim of sameness.
        check(OVERFLOW, &project(Some("/other"), &[]), "heap-buffer-overflow");
        check("killed", &ours, "crash");
        check("", &ours, "crash");
        check("    #0 0x1 in f /work/tree/a.c:1:1\n", &ours, "crash");
        let timeout =
            "==1== ERROR: libFuzzer: timeout after 25 seconds\n    #0 0x1 in spin /work/tree/a.c:1:1\n";
        check(timeout, &ours, "timeout in spin, a.c");
        let leak = "==1==ERROR: LeakSanitizer: detected memory leaks\n\nDirect leak of 3 byte(s)\n    #0 0x1 in malloc (/x+0x1)\n    #1 0x2 in keep(int) /work/tree/b.cpp:2\n";
        check(leak, &ours, "detected-memory-leaks in keep, b.cpp");
        let undefined = "/work/tree/a.c:3:4: runtime error: signed integer overflow\n    #0 0x1 in add /work/tree/a.c:3:4\n";
        check(undefined, &ours, "undefined-behavior in add, a.c");
        let signal = "==1== ERROR: libFuzzer: deadly signal\n    #0 0x1 in A::operator()(int) const /work/tree/a.cpp:1:1\n";
        check(signal, &ours, "deadly-signal in A::operator(), a.cpp");
    }

    #[test]
    fn any_output_is_read_without_harm() {
        let ours = project(Some("/work/tree"), &[]);
        for output in [
            "#",
            "# in ",
            "#1",
            "#999999999999999999999 0x in f /a",
            "ERROR: AddressSanitizer: ",
            "\u{0}é\n#0 0x1 in ",
        ] {
            let with_head = format!("ERROR: AddressSanitizer: x\n{output}");
            CrashSignature::read(output, &ours);
            CrashSignature::read(&with_head, &ours);
        }
    }
}
