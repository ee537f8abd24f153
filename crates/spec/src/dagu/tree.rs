//! Nodes of a rewritten tree. They keep the place of what they were made from, so that a mistake is shown where it is.

use crate::tree::{Kind, Node, Scalar, Span};

pub(super) fn text(span: Span, text: impl Into<String>) -> Node {
    // Quoted, so that no value is taken for a number or for nothing.
    Node { span, kind: Kind::Scalar(Scalar { text: text.into(), plain: false, verbatim: None }) }
}

pub(super) fn plain(span: Span, text: impl Into<String>) -> Node {
    Node { span, kind: Kind::Scalar(Scalar { text: text.into(), plain: true, verbatim: None }) }
}

pub(super) fn list(span: Span, items: Vec<Node>) -> Node {
    Node { span, kind: Kind::List(items) }
}

fn is_key(node: &Node, name: &str) -> bool {
    matches!(&node.kind, Kind::Scalar(key) if key.text == name)
}

/// A map that is being made.
#[derive(Default)]
pub(super) struct Entries(Vec<(Node, Node)>);

impl Entries {
    pub(super) fn add_at(&mut self, span: Span, key: &str, value: Node) {
        self.0.push((plain(span, key), value));
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(known, _)| is_key(known, key))
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.0.retain(|(known, _)| !is_key(known, key));
    }

    /// More variables of a step, behind those it has.
    pub(super) fn extend_env(&mut self, span: Span, variables: Vec<Node>) {
        let known = self.0.iter_mut().find(|(known, _)| is_key(known, "env"));
        match known.map(|(_, value)| &mut value.kind) {
            Some(Kind::List(items)) => items.extend(variables),
            _ => self.add_at(span, "env", list(span, variables)),
        }
    }

    /// Puts lines before the text of the step.
    pub(super) fn prefix_work(&mut self, lines: &str) {
        for (_, value) in self.0.iter_mut().filter(|(key, _)| is_key(key, "run") || is_key(key, "script")) {
            if let Kind::Scalar(text) = &mut value.kind {
                text.text.insert_str(0, lines);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn node(self, span: Span) -> Node {
        Node { span, kind: Kind::Map(self.0) }
    }
}
