//! Rows of a database from the text that `mysqldump` writes: `CREATE TABLE` for the names of columns, `INSERT` for rows.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// As its definition says, for rows that name no columns.
    columns: Arc<[String]>,
    rows: Vec<(Arc<[String]>, Vec<Value>)>,
}

/// What stands in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Text(String),
    /// Something that the database would have computed, such as `now()`.
    Expression(String),
}

/// One row, by the names of its columns.
#[derive(Clone, Copy)]
pub(super) struct Row<'t> {
    columns: &'t [String],
    values: &'t [Value],
}

/// Rows of all tables together: far more jobs than a server of the kind can have.
pub(super) const ROWS_MAX: usize = 1_000_000;

impl Table {
    pub(super) fn new(columns: Vec<String>, rows: Vec<Vec<Option<String>>>) -> Table {
        let columns: Arc<[String]> = columns.into();
        let value = |value: Option<String>| value.map_or(Value::Null, Value::Text);
        let row = |row: Vec<Option<String>>| (columns.clone(), row.into_iter().map(value).collect());
        Table { rows: rows.into_iter().map(row).collect(), columns }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(columns, values)| Row { columns, values })
    }
}

impl<'t> Row<'t> {
    /// The value of a column; empty for NULL, for an expression, and for a column that is not there.
    pub(super) fn get(&self, column: &str) -> &'t str {
        match self.value(column) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// The value of the first of these columns that is there: they have had several names.
    pub(super) fn first(&self, columns: &[&str]) -> &'t str {
        columns.iter().find(|column| self.has(column)).map_or("", |column| self.get(column))
    }

    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name == column)
    }

    /// The expression in a column, if there is one.
    pub(super) fn expression(&self, column: &str) -> Option<&'t str> {
        match self.value(column) {
            Some(Value::Expression(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether it has as many values as its columns.
    pub(super) fn is_whole(&self) -> bool {
        self.columns.len() == self.values.len()
    }

    fn value(&self, column: &str) -> Option<&'t Value> {
        let at = self.columns.iter().position(|name| name.eq_ignore_ascii_case(column))?;
        self.values.get(at)
    }
}

/// The tables of a dump, by name.
pub(super) fn read(text: &str) -> Result<BTreeMap<String, Table>, String> {
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    let mut reader = Reader { rest: text };
    let mut rows = 0;
    while let Some(word) = reader.word() {
        match word.to_ascii_uppercase().as_str() {
            "CREATE" => reader.create(&mut tables),
            "INSERT" | "REPLACE" => {
                rows += reader.insert(&mut tables)?;
                if rows > ROWS_MAX {
                    return Err(format!("the dump has more than {ROWS_MAX} rows"));
                }
            }
            _ => reader.skip_statement(),
        }
    }
    Ok(tables)
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    /// Past blanks and comments.
    fn trim(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let end = match () {
                () if self.rest.starts_with("--") || self.rest.starts_with('#') => self.rest.find('\n'),
                () if self.rest.starts_with("/*") => self.rest.find("*/").map(|at| at + 1),
                () if self.rest.starts_with(';') => Some(0),
                () => return,
            };
            self.rest = end.map_or("", |at| &self.rest[at + 1..]);
        }
    }

    fn word(&mut self) -> Option<&'t str> {
        self.trim();
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end.max(self.rest.chars().next().map_or(1, char::len_utf8)));
        self.rest = rest;
        Some(word)
    }

    /// A name, plain or in backticks, without the database's in front of it.
    fn name(&mut self) -> Option<String> {
        self.trim();
        let name = match self.rest.chars().next().filter(|c| matches!(c, '`' | '"')) {
            Some(quote) => {
                let (name, rest) = self.rest[1..].split_once(quote)?;
                self.rest = rest;
                name
            }
            None => self.word()?,
        };
        match self.rest.strip_prefix('.') {
            Some(rest) => {
                self.rest = rest;
                self.name()
            }
            None => Some(name.to_owned()),
        }
    }

    fn eat(&mut self, c: char) -> bool {
        self.trim_comments();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Past blanks and comments inside of a statement.
    fn trim_comments(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let end = match () {
                () if self.rest.starts_with("-- ") || self.rest.starts_with('#') => self.rest.find('\n'),
                () if self.rest.starts_with("/*") => self.rest.find("*/").map(|at| at + 1),
                () => return,
            };
            self.rest = end.map_or("", |at| &self.rest[at + 1..]);
        }
    }

    /// To the end of a statement: a semicolon outside of quotes.
    fn skip_statement(&mut self) {
        while let Some(c) = self.rest.chars().next() {
            match c {
                '\'' | '"' | '`' => {
                    if self.quoted(c).is_none() {
                        self.rest = "";
                    }
                }
                ';' => {
                    self.rest = &self.rest[1..];
                    return;
                }
                _ => self.rest = &self.rest[c.len_utf8()..],
            }
        }
    }

    fn create(&mut self, tables: &mut BTreeMap<String, Table>) {
        let is_table = self.word().is_some_and(|word| word.eq_ignore_ascii_case("TABLE"));
        let ahead = self.rest.trim_start();
        if is_table && ahead.len() >= 2 && ahead[..2].eq_ignore_ascii_case("IF") {
            for _ in 0..3 {
                let _ = self.word();
            }
        }
        let name = if is_table { self.name() } else { None };
        if let Some(name) = name
            && self.eat('(')
        {
            let mut columns = Vec::new();
            // Columns are in backticks at the beginning of a line; keys begin with a word.
            for line in self.rest.lines() {
                let line = line.trim_start();
                if line.starts_with(')') {
                    break;
                }
                if let Some((column, _)) = line.strip_prefix('`').and_then(|line| line.split_once('`')) {
                    columns.push(column.to_owned());
                }
            }
            tables.entry(name).or_default().columns = columns.into();
        }
        self.skip_statement();
    }

    fn insert(&mut self, tables: &mut BTreeMap<String, Table>) -> Result<usize, String> {
        while let Some(word) = self.word() {
            if word.eq_ignore_ascii_case("INTO") {
                break;
            }
        }
        let name = self.name().ok_or("an INSERT names no table")?;
        let mut columns: Option<Vec<String>> = None;
        if self.eat('(') {
            let mut list = Vec::new();
            while !self.eat(')') {
                list.push(
                    self.name().ok_or_else(|| format!("the columns of an INSERT into {name} break off"))?,
                );
                self.eat(',');
            }
            columns = Some(list);
        }
        let values = self.word().is_some_and(|word| word.eq_ignore_ascii_case("VALUES"));
        if !values {
            self.skip_statement();
            return Ok(0);
        }
        let table = tables.entry(name.clone()).or_default();
        let columns = columns.map_or_else(|| table.columns.clone(), Into::into);
        let before = table.rows.len();
        while self.eat('(') {
            let row = self.row().ok_or_else(|| format!("a row of {name} breaks off"))?;
            table.rows.push((columns.clone(), row));
            if !self.eat(',') {
                break;
            }
        }
        let count = table.rows.len() - before;
        self.skip_statement();
        Ok(count)
    }

    fn row(&mut self) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        loop {
            self.trim_comments();
            values.push(self.value()?);
            if self.eat(')') {
                return Some(values);
            }
            if !self.eat(',') {
                return None;
            }
        }
    }

    /// A text, a number, NULL, or an expression with whatever parentheses it has.
    fn value(&mut self) -> Option<Value> {
        // `_binary 'x'` and `_utf8mb4'x'` name the character set of the text behind them.
        if self.rest.starts_with('_') {
            let end = self.rest.find(['\'', ',', ')'])?;
            if self.rest[end..].starts_with('\'') {
                self.rest = &self.rest[end..];
            }
        }
        let text = self.rest;
        let mut only = None;
        let mut depth = 0_usize;
        loop {
            match self.rest.chars().next()? {
                quote @ ('\'' | '"' | '`') => {
                    let is_first = self.rest.len() == text.len();
                    let quoted = self.quoted(quote)?;
                    only = is_first.then_some(quoted);
                }
                ',' | ')' if depth == 0 => break,
                c => {
                    depth = match c {
                        '(' => depth + 1,
                        ')' => depth - 1,
                        _ => depth,
                    };
                    only = only.filter(|_| c.is_whitespace());
                    self.rest = &self.rest[c.len_utf8()..];
                }
            }
        }
        let word = text[..text.len() - self.rest.len()].trim();
        Some(match only {
            Some(quoted) => Value::Text(quoted),
            None if word.eq_ignore_ascii_case("NULL") => Value::Null,
            None if word.parse::<f64>().is_ok() => Value::Text(word.to_owned()),
            None => Value::Expression(word.to_owned()),
        })
    }

    /// A text in quotes: a doubled quote stands for one, and a backslash for what follows it.
    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' if quote != '`' => text.push(match chars.next()?.1 {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    '0' => '\0',
                    'b' => '\u{8}',
                    'Z' => '\u{1a}',
                    other => other,
                }),
                c if c == quote => match chars.peek() {
                    Some((_, next)) if *next == quote => {
                        chars.next();
                        text.push(quote);
                    }
                    _ => {
                        self.rest = &self.rest[at + 1..];
                        return Some(text);
                    }
                },
                other => text.push(other),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_mysqldump_writes_them() {
        let text = "-- MySQL dump\n/*!40101 SET NAMES utf8 */;\nDROP TABLE IF EXISTS `t`;\n\
            CREATE TABLE `t` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `a` varchar(9) DEFAULT ';' COMMENT 'x''y',\n  \
            PRIMARY KEY (`id`)\n) ENGINE=InnoDB;\nLOCK TABLES `t` WRITE;\n\
            INSERT INTO `t` VALUES (1,'a\\'b''c\\n(d),;'),(2,NULL),\n(-3,'');\nUNLOCK TABLES;\n\
            INSERT INTO db.u (x, `y`) VALUES ('é', 1.5);\n# end\n";
        let tables = read(text).expect("a good dump");
        let shown: Vec<String> =
            tables["t"].rows().map(|row| format!("{}={}", row.get("id"), row.get("a"))).collect();
        assert_eq!(shown, ["1=a'b'c\n(d),;", "2=", "-3="]);
        let row = tables["u"].rows().next().expect("a row");
        assert_eq!((row.get("x"), row.get("y"), row.get("none")), ("é", "1.5", ""));
        assert!(row.has("x") && !row.has("a"));
    }

    #[test]
    fn expressions_stand_for_themselves_and_each_insert_has_its_own_columns() {
        let text = "INSERT INTO t (a, b, c) VALUES (now(), concat('x)', ifnull(1, 2)), _utf8mb4'z'), -- one
            (NULL, b'1' /* two */, 'it' );
            INSERT INTO t (c, a) VALUES ('3', -4), (CURRENT_TIMESTAMP, 'x');";
        let tables = read(text).expect("a good dump");
        let shown: Vec<[&str; 3]> =
            tables["t"].rows().map(|row| ["a", "b", "c"].map(|at| row.get(at))).collect();
        assert_eq!(shown, [["", "", "z"], ["", "", "it"], ["-4", "", "3"], ["x", "", ""]]);
        let rows: Vec<Row<'_>> = tables["t"].rows().collect();
        assert_eq!(rows[0].expression("a"), Some("now()"));
        assert_eq!(rows[0].expression("b"), Some("concat('x)', ifnull(1, 2))"));
        assert_eq!((rows[1].expression("b"), rows[1].expression("c")), (Some("b'1' /* two */"), None));
        assert_eq!(rows[3].expression("c"), Some("CURRENT_TIMESTAMP"));
    }

    #[test]
    fn what_breaks_off_is_said() {
        for text in ["INSERT INTO t VALUES (1,'abc", "INSERT INTO t VALUES (1", "INSERT INTO t (a"] {
            assert!(read(text).is_err(), "{text}");
        }
        for text in
            ["", "SELECT 1", "'", "INSERT INTO t SELECT 1;", "é", "CREATE", "CREATE TABLE", "/*", "((("]
        {
            assert!(read(text).is_ok(), "{text}");
        }
    }
}
