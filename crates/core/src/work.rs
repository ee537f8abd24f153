use std::fmt;

use crate::JobName;

/// One HTTP request of a step. `${NAME}` in its texts becomes the variable's value when the step starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Where to.
    pub url: String,
    /// In file order.
    pub headers: Vec<(String, String)>,
    /// What is sent.
    pub body: Option<HttpBody>,
    /// Statuses that are a success, as ranges with both ends; empty means 200 to 299.
    pub expect: Vec<(u16, u16)>,
    /// Which part of a JSON answer the step prints; all of the answer without it.
    pub json_path: Option<JsonPath>,
}

/// What an HTTP request sends.
#[derive(Clone, Debug, PartialEq)]
pub enum HttpBody {
    /// A text as it is.
    Text(String),
    /// JSON, in which `${NAME}` may stand inside of texts: a value stays one text, whatever it contains.
    Json(String),
}

/// A container that runs a step, by the command line of docker or podman.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Container {
    /// The image.
    pub image: String,
    /// What runs in it.
    pub command: ContainerCommand,
    /// `docker` or `podman`; the first that is installed without it.
    pub engine: Option<String>,
    /// `SOURCE:TARGET` or `SOURCE:TARGET:OPTIONS`.
    pub mounts: Vec<String>,
    /// The user inside.
    pub user: Option<String>,
    /// The working directory inside.
    pub dir: Option<String>,
    /// The network it joins.
    pub network: Option<String>,
    /// Limit of its memory, as `512m`.
    pub memory: Option<String>,
    /// Limit of its processors, as `1.5`.
    pub cpus: Option<String>,
    /// `always`, `missing` or `never`.
    pub pull: Option<String>,
    /// Further options of the command line, as they are.
    pub options: Vec<String>,
}

/// What runs in a container.
#[derive(Clone, Debug, PartialEq)]
pub enum ContainerCommand {
    /// The image's own program with these arguments; with none, those of the image.
    Image(Vec<String>),
    /// A command line for the shell of the step.
    Shell(String),
    /// A program and its arguments, in place of the image's own.
    Program(Vec<String>),
}

impl Default for ContainerCommand {
    fn default() -> ContainerCommand {
        ContainerCommand::Image(Vec::new())
    }
}

/// A run of another job that a step asks for, and waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct JobCall {
    /// The job.
    pub job: JobName,
    /// Its parameters; `${NAME}` in a value becomes the variable's value when the step starts.
    pub params: Vec<(String, String)>,
}

/// A step that is done for each of several items.
#[derive(Clone, Debug, PartialEq)]
pub struct ForEach {
    /// The items.
    pub items: Items,
    /// How many at once.
    pub max_parallel: u16,
    /// Whether the first failure stops the others.
    pub fail_fast: bool,
}

impl ForEach {
    /// How many at once, for a file that does not say.
    pub const MAX_PARALLEL: u16 = 10;
}

/// What a step is done for.
#[derive(Clone, Debug, PartialEq)]
pub enum Items {
    /// These.
    List(Vec<String>),
    /// Whole numbers, both ends included.
    Range {
        /// The first.
        from: i64,
        /// The last.
        to: i64,
        /// From one to the next.
        step: i64,
    },
    /// A list in JSON or one item on each line, once the values are in place.
    Text(String),
}

impl Items {
    /// Items of one step: each is a run, and all stand in the record of the step.
    pub const MAX: usize = 1_000;
    /// Longest item.
    pub const BYTES_MAX: usize = 4_096;
}

/// The way to one value in a JSON document: `$.items[0].id`, `["a name"]` for keys that are no plain names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    text: Box<str>,
    parts: Vec<JsonPart>,
}

/// One part of a [`JsonPath`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonPart {
    /// A member of an object.
    Key(String),
    /// An item of a list, from 0.
    Index(usize),
}

/// Why a text is no JSON path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPathError(String);

impl fmt::Display for JsonPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JsonPathError {}

impl JsonPath {
    /// Longer ones are a mistake.
    pub const PARTS_MAX: usize = 64;

    /// Reads a path. The `$` in front may be left out.
    pub fn parse(text: &str) -> Result<JsonPath, JsonPathError> {
        let wrong = |why: String| Err(JsonPathError(why));
        let mut parts = Vec::new();
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') && !text.starts_with('$') {
            // `a.b` is `$.a.b`.
            let (key, tail) = name(rest);
            parts.push(JsonPart::Key(key.into()));
            rest = tail;
        }
        while !rest.is_empty() {
            if parts.len() == JsonPath::PARTS_MAX {
                return wrong(format!("it has more than {} parts", JsonPath::PARTS_MAX));
            }
            if let Some(tail) = rest.strip_prefix('.') {
                let (key, tail) = name(tail);
                if key.is_empty() {
                    let help = "write a name, as in `$.items[0].id`; `..` and `*` are not supported";
                    return wrong(format!("behind a `.` there is no name; {help}"));
                }
                parts.push(JsonPart::Key(key.into()));
                rest = tail;
            } else if let Some((quote, tail)) = ['"', '\'']
                .iter()
                .find_map(|quote| Some((*quote, rest.strip_prefix('[')?.strip_prefix(*quote)?)))
            {
                let Some((key, tail)) = tail.split_once(&format!("{quote}]")) else {
                    return wrong(format!("the `[{quote}` is not closed by `{quote}]`"));
                };
                parts.push(JsonPart::Key(key.into()));
                rest = tail;
            } else if let Some(tail) = rest.strip_prefix('[') {
                let Some((number, tail)) = tail.split_once(']') else {
                    return wrong("the `[` is not closed by `]`".into());
                };
                let Ok(index) = number.trim().parse() else {
                    return wrong(format!(
                        "`[{number}]` is no number of an item; items count from 0, and filters are not supported"
                    ));
                };
                parts.push(JsonPart::Index(index));
                rest = tail;
            } else {
                return wrong(format!("`{rest}` cannot follow; write `.name`, `[0]` or `[\"name\"]`"));
            }
        }
        Ok(JsonPath { text: text.into(), parts })
    }

    /// Its parts, from the outside in.
    pub fn parts(&self) -> &[JsonPart] {
        &self.parts
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// The name at the beginning, and what follows it.
fn name(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_members_and_items() {
        use JsonPart::{Index, Key};
        let check = |text: &str, expected: &[JsonPart]| {
            assert_eq!(JsonPath::parse(text).expect(text).parts(), expected, "{text}");
        };
        check("$", &[]);
        check("", &[]);
        check("a", &[Key("a".into())]);
        check("$.a.b-c", &[Key("a".into()), Key("b-c".into())]);
        check(".a[0][12].b", &[Key("a".into()), Index(0), Index(12), Key("b".into())]);
        check("$[\"x y\"]['z.]']", &[Key("x y".into()), Key("z.]".into())]);
        for bad in ["$..a", "$.", "$.*", "$[", "$[x]", "$[-1]", "$[\"a", "$a", "a b", "$[?(@.x)]"] {
            assert!(JsonPath::parse(bad).is_err(), "{bad}");
        }
        assert!(JsonPath::parse(&".a".repeat(65)).is_err());
    }
}
