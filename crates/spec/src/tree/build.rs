//! Events of the YAML parser to a tree: aliases, merges, keys that are there twice, and every limit.

use std::collections::BTreeSet;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span as EventSpan, Tag};
use rustc_hash::FxHashMap;

use super::{DEPTH_MAX, EXPANDED_BYTES_MAX, Kind, NODES_MAX, Node, Scalar, Span, Tree, problem};
use crate::diagnostic::{Code, Diagnostic, printable};

/// A collection whose end has not come yet.
struct Open {
    node: Node,
    /// Where it begins, in bytes.
    start: usize,
    anchor: usize,
    /// The key that waits for its value.
    key: Option<Node>,
    /// Keys so far, so that a map of many keys is not searched again and again.
    seen: BTreeSet<String>,
    /// The key that waits was there before: its value is dropped.
    again: bool,
}

pub(super) struct Builder<'t> {
    text: &'t str,
    anchors: FxHashMap<usize, Node>,
    open: Vec<Open>,
    root: Option<Node>,
    twice: Vec<Diagnostic>,
    nodes: usize,
    bytes: usize,
}

/// Keys there twice that are reported; a hostile file must not fill memory with complaints.
const TWICE_MAX: usize = 20;

impl<'t> Builder<'t> {
    pub(super) fn new(text: &'t str) -> Builder<'t> {
        Builder {
            text,
            anchors: FxHashMap::default(),
            open: Vec::new(),
            root: None,
            twice: Vec::new(),
            nodes: 0,
            bytes: 0,
        }
    }

    pub(super) fn build(mut self) -> Result<Tree, Diagnostic> {
        let options = granit_parser::options! {
            emit_comments: false,
            // The builder's own limit speaks first, with our words.
            flow_nesting_limit: DEPTH_MAX + 2,
            block_nesting_limit: DEPTH_MAX + 2,
        };
        let mut documents = 0;
        for next in Parser::new_from_str_with_options(self.text, options) {
            let (event, span) = next.map_err(|error| self.syntax(&error))?;
            match event {
                Event::DocumentStart(..) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(problem(Code::Yaml, self.span(&span), "a second document begins here")
                            .with_help(
                                "one file holds one job: give each document (after `---`) a file of its own",
                            ));
                    }
                }
                Event::Scalar(text, style, anchor, tag) => {
                    self.scalar(&text, style, anchor, tag.as_deref(), &span)?
                }
                Event::SequenceStart(_, anchor, tag) => {
                    self.begin(Kind::List(Vec::new()), anchor, tag.as_deref(), "seq", &span)?;
                }
                Event::MappingStart(_, anchor, tag) => {
                    self.begin(Kind::Map(Vec::new()), anchor, tag.as_deref(), "map", &span)?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.end(&span)?,
                Event::Alias(anchor) => self.alias(anchor, &span)?,
                _ => {}
            }
        }
        match self.root {
            Some(root) if matches!(root.kind, Kind::Map(_)) => Ok(Tree { root, twice: self.twice }),
            Some(node) if !node.is_null() => Err(problem(
                Code::WrongType,
                node.span,
                format!("a job file is a map of keys and values, not {}", node.what()),
            )
            .with_help("begin with a key, as in `run: echo hello`")),
            _ => Err(problem(Code::Missing, Span { line: 1, column: 1, len: 0 }, "the file is empty")
                .with_help("the smallest job is one line: `run: echo hello`")),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        event: &EventSpan,
    ) -> Result<(), Diagnostic> {
        let mut span = self.span(event);
        let mut plain = style == ScalarStyle::Plain;
        if let Some(tag) = tag {
            self.check_tag(tag, &["str", "int", "float", "bool", "null"], event)?;
            plain &= !tag.is_yaml_core_schema_tag("str");
        }
        let source = event.slice(self.text).unwrap_or_default();
        let verbatim = match style {
            ScalarStyle::Plain if source == text => Some(0),
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted
                if source.len() == text.len() + 2 && source.get(1..source.len() - 1) == Some(text) =>
            {
                Some(1)
            }
            _ => None,
        };
        if text.contains('\0') {
            return Err(problem(Code::Text, span, "a NUL character cannot stand in a job file"));
        }
        if plain && source.is_empty() {
            // A key without a value: the parser reports the place behind the colon.
            span.len = 0;
        }
        self.spend(1, text.len(), span)?;
        let text = if plain && source.is_empty() { String::new() } else { text.to_owned() };
        let node = Node { span, kind: Kind::Scalar(Scalar { text, plain, verbatim }) };
        self.add(node, anchor)
    }

    fn begin(
        &mut self,
        kind: Kind,
        anchor: usize,
        tag: Option<&Tag>,
        core: &str,
        event: &EventSpan,
    ) -> Result<(), Diagnostic> {
        if let Some(tag) = tag {
            self.check_tag(tag, &[core], event)?;
        }
        let span = self.span(event);
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep(span));
        }
        self.spend(1, 0, span)?;
        self.open.push(Open {
            node: Node { span, kind },
            start: event.start.byte_offset().unwrap_or_default(),
            anchor,
            key: None,
            seen: BTreeSet::new(),
            again: false,
        });
        Ok(())
    }

    fn end(&mut self, event: &EventSpan) -> Result<(), Diagnostic> {
        let Some(Open { mut node, start, anchor, .. }) = self.open.pop() else { return Ok(()) };
        let end = if event.end.col() > event.start.col() {
            // The bracket that closes it.
            Some(self.span(event))
        } else {
            // A block has no sign of its own: it is pointed at by its first line.
            match &node.kind {
                Kind::Map(entries) => entries.first().map(|(key, value)| {
                    if value.span.line == key.span.line && value.span.len > 0 { value.span } else { key.span }
                }),
                Kind::List(items) => items.first().map(|item| item.span),
                Kind::Scalar(_) => None,
            }
        };
        if let Some(end) = end
            && end.line == node.span.line
        {
            node.span.len = (end.column + end.len).saturating_sub(node.span.column).max(node.span.len);
        } else if event.end.col() > event.start.col() {
            node.span.len = self.rest_of_line(start);
        }
        if let Kind::Map(entries) = &mut node.kind {
            self.merge(entries)?;
        }
        self.add(node, anchor)
    }

    /// Characters from a place to the end of its line.
    fn rest_of_line(&self, start: usize) -> u32 {
        let rest = self.text.get(start..).unwrap_or_default();
        rest.lines().next().unwrap_or_default().trim_end().chars().count() as u32
    }

    fn alias(&mut self, anchor: usize, event: &EventSpan) -> Result<(), Diagnostic> {
        let span = self.span(event);
        let Some(target) = self.anchors.get(&anchor) else {
            return Err(problem(Code::Yaml, span, "an alias cannot stand inside of what it names"));
        };
        // Weighed before it is copied: the copy of a bomb is never made.
        let (nodes, bytes) = weigh(target);
        let mut copy = if self.nodes + nodes <= NODES_MAX && self.bytes + bytes <= EXPANDED_BYTES_MAX {
            target.clone()
        } else {
            self.spend(nodes, bytes, span)?;
            return Ok(());
        };
        self.spend(nodes, bytes, span)?;
        if matches!(copy.kind, Kind::Scalar(_)) {
            copy.span = span;
            if let Kind::Scalar(scalar) = &mut copy.kind {
                scalar.verbatim = None;
            }
        }
        self.add(copy, 0)
    }

    /// Puts a finished node where it belongs.
    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Diagnostic> {
        if anchor != 0 {
            let (nodes, bytes) = weigh(&node);
            self.spend(nodes, bytes, node.span)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.node.kind {
            Kind::List(items) => items.push(node),
            Kind::Map(entries) => match open.key.take() {
                Some(_) if std::mem::take(&mut open.again) => {}
                Some(key) => entries.push((key, node)),
                None => {
                    let Kind::Scalar(scalar) = &node.kind else {
                        return Err(problem(Code::Yaml, node.span, "a key is a word, not a list or a map"));
                    };
                    if !open.seen.insert(scalar.text.clone()) {
                        open.again = true;
                        if self.twice.len() < TWICE_MAX {
                            self.twice.push(twice(&scalar.text, node.span, entries));
                        }
                    }
                    let again = open.again;
                    open.key = Some(node);
                    if again {
                        let path = self.path();
                        if let Some(last) = self.twice.last_mut() {
                            last.path = path;
                        }
                    }
                }
            },
            Kind::Scalar(_) => {}
        }
        Ok(())
    }

    /// The field that is being read.
    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            match &open.node.kind {
                Kind::List(items) => path.push_str(&format!("[{}]", items.len())),
                _ => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    let key = open.key.as_ref().and_then(text).unwrap_or_default();
                    path.extend(key.chars().take(64));
                }
            }
        }
        path
    }

    /// `<<: *defaults`: the keys of the named map that this one does not have itself.
    fn merge(&mut self, entries: &mut Vec<(Node, Node)>) -> Result<(), Diagnostic> {
        let is_merge =
            |(key, _): &(Node, Node)| matches!(&key.kind, Kind::Scalar(key) if key.plain && key.text == "<<");
        let Some(at) = entries.iter().position(is_merge) else { return Ok(()) };
        let (key, value) = entries.remove(at);
        let sources = match value.kind {
            Kind::Map(_) => vec![value],
            Kind::List(items) => items,
            Kind::Scalar(_) => vec![value],
        };
        let mut known: BTreeSet<String> = entries.iter().filter_map(|(key, _)| text(key)).collect();
        for source in sources {
            let Kind::Map(more) = source.kind else {
                return Err(problem(Code::Yaml, key.span, "`<<` takes a map, or a list of maps, by alias")
                    .with_help("as in `<<: *defaults`"));
            };
            for (key, value) in more {
                if text(&key).is_some_and(|key| known.insert(key)) {
                    entries.push((key, value));
                }
            }
        }
        Ok(())
    }

    fn spend(&mut self, nodes: usize, bytes: usize, span: Span) -> Result<(), Diagnostic> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.nodes > NODES_MAX {
            return Err(problem(
                Code::Limit,
                span,
                format!("more than {NODES_MAX} keys and values, aliases included"),
            ));
        }
        if self.bytes > EXPANDED_BYTES_MAX {
            let message = format!("more than {EXPANDED_BYTES_MAX} bytes of text, aliases included");
            return Err(problem(Code::Limit, span, message));
        }
        Ok(())
    }

    fn check_tag(&self, tag: &Tag, allowed: &[&str], event: &EventSpan) -> Result<(), Diagnostic> {
        if allowed.iter().any(|name| tag.is_yaml_core_schema_tag(name)) {
            return Ok(());
        }
        let span = event.tag_span().map_or_else(|| self.span(event), |tag| self.span(&tag));
        Err(problem(
            Code::Yaml,
            span,
            format!("the tag `{}` is not used in job files", printable(&tag.original())),
        )
        .with_help("remove it"))
    }

    fn span(&self, event: &EventSpan) -> Span {
        let len = if event.start.line() == event.end.line() {
            event.end.col().saturating_sub(event.start.col())
        } else {
            self.rest_of_line(event.start.byte_offset().unwrap_or_default()) as usize
        };
        Span { line: event.start.line() as u32, column: event.start.col() as u32 + 1, len: len as u32 }
    }

    /// A syntax error in our words, with the advice that fits the usual slips.
    fn syntax(&self, error: &ScanError) -> Diagnostic {
        let mark = error.marker();
        let span = Span { line: mark.line() as u32, column: mark.col() as u32 + 1, len: 1 };
        if *error.kind() == ErrorKind::RecursionLimitExceeded {
            // The parser looks ahead of the builder, so its limit may come first.
            return too_deep(span);
        }
        let line = self.text.lines().nth(mark.line().saturating_sub(1)).unwrap_or_default();
        let value = line.trim_start().trim_start_matches("- ");
        let value = value.split_once(": ").map_or(value, |(_, value)| value).trim_start();
        let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
        let mut found = problem(Code::Yaml, span, format!("this is not YAML: {}", printable(&error.info())));
        let help = match error.kind() {
            _ if indent.contains('\t') => Some("indent with spaces; YAML has no tabs there"),
            _ if value.starts_with(['*', '@', '%', '`', '!', '&', '?']) => {
                Some("put the value in quotes: in YAML its first character has a meaning of its own")
            }
            ErrorKind::MappingValueNotAllowed => {
                Some("put a value that contains `: ` in quotes, and indent the keys of one map alike")
            }
            _ if error.info().contains("quote") => {
                Some("close the quote, or double it (`''`) if it is part of the text")
            }
            ErrorKind::UnknownAnchor => Some("an alias `*name` needs an anchor `&name` before it"),
            _ => None,
        };
        found.help = help.map(str::to_owned);
        found
    }
}

fn too_deep(span: Span) -> Diagnostic {
    problem(Code::Limit, span, format!("nested deeper than {DEPTH_MAX} levels"))
}

fn twice(key: &str, span: Span, entries: &[(Node, Node)]) -> Diagnostic {
    let is_it = |(known, _): &&(Node, Node)| matches!(&known.kind, Kind::Scalar(known) if known.text == key);
    let line = entries.iter().find(is_it).map_or(0, |(known, _)| known.span.line);
    let shown = printable(&key.chars().take(64).collect::<String>());
    problem(Code::DuplicateKey, span, format!("the key `{shown}` is already on line {line}"))
        .with_help("keep one of the two")
}

fn text(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Scalar(scalar) => Some(scalar.text.clone()),
        _ => None,
    }
}

/// Nodes and bytes of a subtree. The tree is at most [`DEPTH_MAX`] deep, so the recursion is bounded.
fn weigh(node: &Node) -> (usize, usize) {
    let sum = |(n, b): (usize, usize), (m, c): (usize, usize)| (n + m, b + c);
    match &node.kind {
        Kind::Scalar(scalar) => (1, scalar.text.len()),
        Kind::List(items) => items.iter().map(weigh).fold((1, 0), sum),
        Kind::Map(entries) => {
            entries.iter().map(|(key, value)| sum(weigh(key), weigh(value))).fold((1, 0), sum)
        }
    }
}
