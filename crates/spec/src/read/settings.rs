//! Settings files of other parts of Cadran, read like job files: key by key, every mistake with its place.

use std::cell::RefCell;

use cadran_core::Millis;

use super::fields::{Field, Fields, Shape};
use super::findings::Findings;
use super::scalar;
use crate::diagnostic::{Code, Diagnostic};
use crate::tree::{self, Node, Span, Tree};

/// One map of a settings file: asked for its keys, it gives their values or notes what is wrong with them.
///
/// ```
/// use cadran_spec::{Shape, key, read_settings};
///
/// const TOP: Shape = Shape { what: "the file", keys: &[key("name"), key("limit")], unsupported: &[] };
///
/// let read = |text: &str| read_settings(text.as_bytes(), &TOP, |top| {
///     Some((top.needed("name")?.to_owned(), top.whole("limit", 1, 9).unwrap_or(3)))
/// });
/// assert_eq!(read("name: a").unwrap(), ("a".to_owned(), 3));
/// assert_eq!(read("name: a\nlimit: 12").unwrap_err()[0].to_string(), "2:8: error: `limit` is 12; allowed are 1 to 9");
/// ```
pub struct Section<'n> {
    fields: Fields<'n>,
    span: Span,
    what: &'static str,
    findings: &'n RefCell<Findings>,
}

/// Reads a settings file whose top is a map. The error is never empty, in the order of the file, and bounded.
pub fn read_settings<T>(
    bytes: &[u8],
    shape: &Shape,
    read: impl FnOnce(&Section<'_>) -> Option<T>,
) -> Result<T, Vec<Diagnostic>> {
    let Tree { root, twice } = tree::parse(bytes).map_err(|found| vec![found])?;
    let findings = RefCell::new(Findings::with(twice));
    let value = Section::read(&root, shape, &findings).and_then(|section| read(&section));
    let mut findings = findings.into_inner();
    match value {
        Some(value) if !findings.has_errors() => Ok(value),
        _ => {
            if !findings.has_errors() {
                findings.error(root.span, Code::Missing, format!("{} is not complete", shape.what));
            }
            Err(findings.finish(&root))
        }
    }
}

impl<'n> Section<'n> {
    fn read(node: &'n Node, shape: &Shape, findings: &'n RefCell<Findings>) -> Option<Section<'n>> {
        let fields = Fields::read(node, shape, &mut findings.borrow_mut())?;
        Some(Section { fields, span: node.span, what: shape.what, findings })
    }

    /// A map inside this one.
    pub fn section(&self, key: &str, shape: &Shape) -> Option<Section<'n>> {
        let field = self.fields.get(key)?;
        Section::read(field.value, shape, self.findings)
    }

    /// Text that says something.
    pub fn text(&self, key: &str) -> Option<&'n str> {
        self.with(key, |field, findings| scalar::filled(field.spelled, field.value, findings))
    }

    /// Text that says something and has to be there.
    pub fn needed(&self, key: &str) -> Option<&'n str> {
        if self.fields.get(key).is_none() {
            let message = format!("{} needs the key `{key}`", self.what);
            let span = self.fields.written(key).map_or(self.span.part(0, 0), |field| field.key.span);
            self.findings.borrow_mut().error(span, Code::Missing, message);
        }
        self.text(key)
    }

    /// Text, or a list of texts.
    pub fn texts(&self, key: &str) -> Option<Vec<&'n str>> {
        self.with(key, |field, findings| {
            let one = |node| scalar::filled(field.spelled, node, findings);
            scalar::one_or_many(field.value).iter().map(one).collect()
        })
    }

    /// `true` or `false`.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.with(key, |field, findings| scalar::flag(field.spelled, field.value, findings))
    }

    /// A whole number within bounds.
    pub fn whole(&self, key: &str, min: i64, max: i64) -> Option<i64> {
        self.with(key, |field, findings| scalar::whole(field.spelled, min, max, field.value, findings))
    }

    /// A duration with its unit, in milliseconds.
    pub fn duration(&self, key: &str) -> Option<Millis> {
        self.with(key, |field, findings| scalar::duration(field.spelled, field.value, findings))
    }

    /// One of a few words, in any case.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        self.with(key, |field, findings| scalar::word(field.spelled, words, field.value, findings))
    }

    /// Notes that the value of a key is not what it must be.
    pub fn wrong(&self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        let span = self.fields.written(key).map_or(self.span, |field| field.value.span);
        self.findings.borrow_mut().error_help(span, Code::BadValue, message, help);
    }

    fn with<T>(&self, key: &str, read: impl FnOnce(Field<'n>, &mut Findings) -> Option<T>) -> Option<T> {
        let field = self.fields.get(key)?;
        read(field, &mut self.findings.borrow_mut())
    }
}
