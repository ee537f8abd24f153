//! The `container` key of a step: the image that its command runs in.

use cadran_core::{Container, ContainerCommand, Work};

use super::fields::{Field, Fields, Shape, key, keys};
use super::findings::Findings;
use super::lists::texts;
use super::scalar::{line, short, word};
use crate::diagnostic::Code;
use crate::tree::Kind;

/// Longest name of an image, a user, a network or a directory.
const WORD_BYTES_MAX: usize = 4096;

pub(crate) const CONTAINER: Shape = Shape {
    what: "`container`",
    keys: &[
        key("image"),
        key("args"),
        key("engine"),
        keys("mounts", &["volumes"]),
        key("user"),
        keys("dir", &["working_dir"]),
        key("network"),
        key("memory"),
        key("cpus"),
        keys("pull", &["pull_policy"]),
        key("options"),
    ],
    unsupported: &[
        (
            "command",
            "write it beside `container`, as `run` of the step; `args` are for the image's own program",
        ),
        ("run", "write it beside `container`, as `run` of the step"),
        ("env", "write it beside `container`, as `env` of the step"),
        ("timeout", "write it beside `container`, as `timeout` of the step"),
        ("name", "Cadran names its containers itself, so that it can end them: `cadran-RUN-STEP-ATTEMPT`"),
        (
            "container_name",
            "Cadran names its containers itself, so that it can end them: `cadran-RUN-STEP-ATTEMPT`",
        ),
        ("exec", "run `docker exec` itself as the step"),
        ("keep_container", "a container ends with its step; run the container command itself to keep one"),
        ("ports", "write `options: [--publish=8080:80]`"),
        ("limits", "write `memory: 512m` and `cpus: 1.5`"),
    ],
};

pub(crate) const ENGINES: &[(&str, &str)] = &[("docker", "docker"), ("podman", "podman")];

pub(crate) const PULLS: &[(&str, &str)] = &[("always", "always"), ("missing", "missing"), ("never", "never")];

/// What a step with `container` does; `all` are the keys of the step.
pub(crate) fn work(field: Field<'_>, all: &Fields<'_>, findings: &mut Findings) -> Option<Work> {
    let mut container = Container::default();
    let mut args = None;
    if let Kind::Scalar(_) = &field.value.kind {
        container.image = image(field, findings)?;
    } else {
        let fields = Fields::read(field.value, &CONTAINER, findings)?;
        let Some(named) = fields.get("image") else {
            let help = "add `image: alpine:3`";
            findings.error_help(field.value.span, Code::Missing, "this container has no `image`", help);
            return None;
        };
        container.image = image(named, findings)?;
        container.engine = choice(&fields, "engine", ENGINES, findings);
        container.pull = choice(&fields, "pull", PULLS, findings);
        let mut single = |name: &str| {
            let field = fields.get(name)?;
            line(field.spelled, WORD_BYTES_MAX, field.value, findings).map(|text| text.trim().to_owned())
        };
        container.user = single("user");
        container.dir = single("dir");
        container.network = single("network");
        container.memory = limit(&fields, "memory", "512m", is_size, findings);
        container.cpus = limit(&fields, "cpus", "1.5", is_count, findings);
        container.mounts = fields.get("mounts").map(|field| mounts(field, findings)).unwrap_or_default();
        container.options = fields.get("options").map(|field| options(field, findings)).unwrap_or_default();
        if let Some(field) = fields.get("args") {
            args = Some((field.key.span, texts(field, findings)));
        }
    }
    if let Some(script) = all.get("script") {
        let message = "a `script` is a file of this machine, which a container does not see";
        findings.error_help(
            script.key.span,
            Code::Conflict,
            message,
            "write it as `run: |` and lines below it",
        );
        return None;
    }
    container.command = match (all.get("run"), args) {
        (Some(_), Some((span, _))) => {
            let message = "`args` are for the image's own program, and `run` is another one";
            findings.error_help(span, Code::Conflict, message, "keep one of the two");
            return None;
        }
        (Some(run), None) => match super::step::command(run, findings)? {
            Work::Program(words) => ContainerCommand::Program(words),
            Work::Shell(line) => ContainerCommand::Shell(line),
            _ => return None,
        },
        (None, args) => ContainerCommand::Image(args.map(|(_, args)| args).unwrap_or_default()),
    };
    Some(Work::Container(Box::new(container)))
}

fn image(field: Field<'_>, findings: &mut Findings) -> Option<String> {
    let image = line(field.spelled, WORD_BYTES_MAX, field.value, findings)?.trim();
    if image.starts_with('-') || image.contains(char::is_whitespace) {
        let message = format!("`{}` is no name of an image", short(image));
        findings.error_help(field.value.span, Code::BadValue, message, "write it as in `alpine:3`");
        return None;
    }
    Some(image.to_owned())
}

fn choice(
    fields: &Fields<'_>,
    name: &str,
    words: &[(&str, &'static str)],
    findings: &mut Findings,
) -> Option<String> {
    let field = fields.get(name)?;
    word(field.spelled, words, field.value, findings).map(str::to_owned)
}

fn limit(
    fields: &Fields<'_>,
    name: &str,
    example: &str,
    is_good: fn(&str) -> bool,
    findings: &mut Findings,
) -> Option<String> {
    let field = fields.get(name)?;
    let text = line(field.spelled, WORD_BYTES_MAX, field.value, findings)?.trim();
    if !is_good(text) {
        let message = format!("`{}` cannot be `{}`", field.spelled, short(text));
        findings.error_help(
            field.value.span,
            Code::BadValue,
            message,
            format!("write it as in `{name}: {example}`"),
        );
        return None;
    }
    Some(text.to_owned())
}

/// A number above 0, and the letter of a unit.
fn is_size(text: &str) -> bool {
    let number = text.trim_end_matches(['b', 'k', 'm', 'g', 'B', 'K', 'M', 'G']);
    text.len() - number.len() <= 1 && number.parse::<u64>().is_ok_and(|number| number > 0)
}

fn is_count(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_plain && text.parse::<f64>().is_ok_and(|number| number > 0.0)
}

fn mounts(field: Field<'_>, findings: &mut Findings) -> Vec<String> {
    let mounts = texts(field, findings);
    let is_good = |mount: &String| {
        let parts: Vec<&str> = mount.split(':').collect();
        matches!(parts.len(), 2 | 3) && !parts[0].is_empty() && parts[1].starts_with(['/', '$'])
    };
    if let Some(bad) = mounts.iter().find(|mount| !is_good(mount)) {
        let message = format!("`{}` cannot be `{}`", field.spelled, short(bad));
        let help = "write `SOURCE:TARGET` or `SOURCE:TARGET:ro`, with the whole path inside of the container";
        findings.error_help(field.value.span, Code::BadValue, message, help);
    }
    mounts
}

/// Options of the command line, each one word, so that none of them can be taken for the image.
fn options(field: Field<'_>, findings: &mut Findings) -> Vec<String> {
    let options = texts(field, findings);
    if let Some(bad) = options.iter().find(|option| !option.starts_with('-')) {
        let message = format!("`{}` in `{}` is no option", short(bad), field.spelled);
        let help = "write each as one word, as in `--add-host=db:10.0.0.5`";
        findings.error_help(field.value.span, Code::BadValue, message, help);
    }
    options
}
