//! Rows of a database from the text that `mysqldump` writes: `CREATE TABLE` for the names of columns, `INSERT` for rows.

use std::collections::BTreeMap;

/// The rows of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

/// One row, by the names of its columns.
#[derive(Clone, Copy)]
pub(super) struct Row<'t> {
    table: &'t Table,
    values: &'t [Option<String>],
}

/// Rows of all tables together: far more jobs than a server of the kind can have.
pub(super) const ROWS_MAX: usize = 1_000_000;

impl Table {
    pub(super) fn new(columns: Vec<String>, rows: Vec<Vec<Option<String>>>) -> Table {
        Table { columns, rows }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|values| Row { table: self, values })
    }

    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name == column)
    }
}

impl<'t> Row<'t> {
    /// The value of a column; empty for NULL and for a column that is not there.
    pub(super) fn get(&self, column: &str) -> &'t str {
        let at = self.table.columns.iter().position(|name| name == column);
        at.and_then(|at| self.values.get(at)?.as_deref()).unwrap_or_default()
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
        let name = match self.rest.strip_prefix('`') {
            Some(quoted) => {
                let (name, rest) = quoted.split_once('`')?;
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
        self.trim_blanks();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn trim_blanks(&mut self) {
        self.rest = self.rest.trim_start();
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
            tables.insert(name, Table { columns, rows: Vec::new() });
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
        if let Some(columns) = columns {
            table.columns = columns;
        }
        let before = table.rows.len();
        while self.eat('(') {
            let row = self.row().ok_or_else(|| format!("a row of {name} breaks off"))?;
            table.rows.push(row);
            if !self.eat(',') {
                break;
            }
        }
        let count = table.rows.len() - before;
        self.skip_statement();
        Ok(count)
    }

    fn row(&mut self) -> Option<Vec<Option<String>>> {
        let mut values = Vec::new();
        loop {
            self.trim_blanks();
            let first = self.rest.chars().next()?;
            if matches!(first, '\'' | '"') {
                values.push(Some(self.quoted(first)?));
            } else if self.rest.starts_with("_binary ") {
                self.rest = &self.rest["_binary ".len()..];
                continue;
            } else {
                let end = self.rest.find([',', ')'])?;
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                let word = word.trim();
                values.push((!word.eq_ignore_ascii_case("NULL")).then(|| word.to_owned()));
            }
            if self.eat(')') {
                return Some(values);
            }
            if !self.eat(',') {
                return None;
            }
        }
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
        assert!(tables["t"].has("a") && !tables["t"].has("b"));
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
