//! The file that names groups of executors, their addresses and tokens.

use cadran_core::{Dialect, Executor, GroupName};

use super::fields::{Fields, Shape, key};
use super::findings::Findings;
use super::scalar::{filled, one_or_many, word};
use crate::diagnostic::{Code, Diagnostic};
use crate::tree::{self, Kind, Node, Tree};

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutorsFile {
    /// The token for groups that have none of their own.
    pub token: Option<String>,
    /// Groups with something to say about them.
    pub groups: Vec<GroupEntry>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Its name.
    pub name: GroupName,
    /// Its own token.
    pub token: Option<String>,
    /// Addresses in the order that routes choose from; empty when executors register themselves.
    pub executors: Vec<Executor>,
}

pub(crate) const FILE: Shape =
    Shape { what: "the file of executors", keys: &[key("token"), key("groups")], unsupported: &[] };
pub(crate) const GROUP: Shape = Shape {
    what: "a group of executors",
    keys: &[key("token"), key("addresses"), key("dialect")],
    unsupported: &[],
};

pub(crate) const DIALECTS: &[(&str, Dialect)] =
    &[("xxl-job", Dialect::Two), ("xxl-job-3.5", Dialect::Three), ("orth", Dialect::Orth)];

/// Groups and addresses in one file.
const GROUPS_MAX: usize = 1000;

/// Reads the file of executors.
pub fn read_executors(text: &[u8]) -> Result<ExecutorsFile, Vec<Diagnostic>> {
    let Tree { root, twice } = tree::parse(text).map_err(|found| vec![found])?;
    let mut findings = Findings::with(twice);
    let file = read(&root, &mut findings);
    match file {
        Some(file) if !findings.has_errors() => Ok(file),
        _ => Err(findings.finish(&root)),
    }
}

fn read(root: &Node, findings: &mut Findings) -> Option<ExecutorsFile> {
    let fields = Fields::read(root, &FILE, findings)?;
    let mut file = ExecutorsFile::default();
    if let Some(field) = fields.get("token") {
        file.token = filled("token", field.value, findings).map(str::to_owned);
    }
    let Some(groups) = fields.get("groups") else { return Some(file) };
    let Kind::Map(entries) = &groups.value.kind else {
        let message = format!("`groups` is a map of groups by name, not {}", groups.value.what());
        findings.error(groups.value.span, Code::WrongType, message);
        return None;
    };
    if entries.len() > GROUPS_MAX {
        findings.error(groups.key.span, Code::Limit, format!("there are more than {GROUPS_MAX} groups"));
        return None;
    }
    for (name, value) in entries {
        let Kind::Scalar(text) = &name.kind else { continue };
        match text.text.parse::<GroupName>() {
            Ok(group) => file.groups.extend(self::group(group, value, findings)),
            Err(error) => findings.error(name.span, Code::BadValue, error.to_string()),
        }
    }
    Some(file)
}

fn group(name: GroupName, node: &Node, findings: &mut Findings) -> Option<GroupEntry> {
    let mut entry = GroupEntry { name, token: None, executors: Vec::new() };
    if node.is_null() {
        return Some(entry);
    }
    let fields = Fields::read(node, &GROUP, findings)?;
    if let Some(field) = fields.get("token") {
        entry.token = filled("token", field.value, findings).map(str::to_owned);
    }
    let dialect = match fields.get("dialect") {
        Some(field) => word("dialect", DIALECTS, field.value, findings)?,
        None => Dialect::default(),
    };
    if let Some(field) = fields.get("addresses") {
        let items = one_or_many(field.value);
        if items.len() > GROUPS_MAX {
            findings.error(
                field.key.span,
                Code::Limit,
                format!("there are more than {GROUPS_MAX} addresses"),
            );
            return None;
        }
        for item in items {
            let Some(text) = filled("addresses", item, findings) else { continue };
            match text.trim().parse() {
                Ok(address) => entry.executors.push(Executor { address, dialect }),
                Err(error) => {
                    findings.error(item.span, Code::BadValue, format!("`{}` is {error}", text.trim()))
                }
            }
        }
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_executors() {
        let text = "token: abc\ngroups:\n  billing:\n  reports: {addresses: ['http://b:1', 'http://a:2'], dialect: orth, token: x}\n";
        let file = read_executors(text.as_bytes()).expect("a good file");
        assert_eq!(file.token.as_deref(), Some("abc"));
        let shown: Vec<String> = file
            .groups
            .iter()
            .map(|group| {
                let executors = group.executors.iter();
                let list: Vec<_> = executors.map(|e| format!("{} {}", e.address, e.dialect.word())).collect();
                format!("{} {:?} {}", group.name, group.token.as_deref(), list.join(", "))
            })
            .collect();
        assert_eq!(shown, ["billing None ", "reports Some(\"x\") http://b:1 orth, http://a:2 orth"]);
        for (text, says) in [
            ("groups: [a]", "a map of groups"),
            ("groups: {'a b': {}}", "the name of a group"),
            ("groups: {a: {addresses: https://x}}", "does not begin with http://"),
            ("groups: {a: {adresses: []}}", "did you mean"),
            ("tokn: x", "unknown key"),
        ] {
            let found = read_executors(text.as_bytes()).expect_err(text);
            let said = format!("{} {}", found[0].message, found[0].help.clone().unwrap_or_default());
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
