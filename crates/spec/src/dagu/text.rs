//! Texts of a Dagu file: `$NAME`, `${NAME}`, `${NAME:-default}`, `${OUT.key}` and commands in backticks.

/// A piece of a value that Dagu evaluates: of `env`, `params`, directories, paths and conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(String),
    Variable(String),
    /// The name, and the text between `:-` and `}`.
    WithDefault(String, String),
    /// A name and what follows its first dot: a value of a JSON output, or something of a step.
    Path(String, String),
    /// A command in backticks.
    Command(String),
}

/// Splits a value as Dagu reads it. A `$` that begins nothing stands for itself; `$$` is nothing.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['$', '`']) {
        literal.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let found = if rest[at..].starts_with('`') {
            after.split_once('`').map(|(command, tail)| (Piece::Command(command.to_owned()), tail))
        } else if let Some(tail) = after.strip_prefix('$') {
            Some((Piece::Literal(String::new()), tail))
        } else if let Some((inner, tail)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            braced(inner).map(|piece| (piece, tail))
        } else {
            let end = name_len(after);
            (end > 0).then(|| (Piece::Variable(after[..end].to_owned()), &after[end..]))
        };
        match found {
            Some((piece, tail)) => {
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                }
                if piece != Piece::Literal(String::new()) {
                    pieces.push(piece);
                }
                rest = tail;
            }
            None => {
                literal.push_str(&rest[at..=at]);
                rest = after;
            }
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    pieces
}

fn braced(inner: &str) -> Option<Piece> {
    let end = name_len(inner);
    let (name, tail) = inner.split_at(end);
    if name.is_empty() {
        return None;
    }
    match tail.chars().next() {
        None => Some(Piece::Variable(name.to_owned())),
        Some('.' | '[') => Some(Piece::Path(name.to_owned(), tail.to_owned())),
        Some(_) => {
            let default = tail.strip_prefix(":-")?;
            Some(Piece::WithDefault(name.to_owned(), default.to_owned()))
        }
    }
}

/// Bytes of the variable's name, or the number of a positional parameter, that a text begins with.
pub(super) fn name_len(text: &str) -> usize {
    let word = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    }
    word
}

/// A literal inside of double quotes of a shell.
pub(super) fn shell_literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '"' | '$' | '`') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A text as one word of a shell.
pub(super) fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Commands of a shell that print the value of these pieces. A command that fails ends the
/// shell with a failure.
pub(super) fn shell_print(pieces: &[Piece]) -> String {
    let (mut commands, mut value) = (String::new(), String::new());
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Literal(text) => value.push_str(&shell_literal(text)),
            Piece::Variable(name) => value.push_str(&format!("${{{name}}}")),
            Piece::WithDefault(name, default) => {
                value.push_str(&format!("${{{name}:-{}}}", shell_literal(default)));
            }
            Piece::Path(name, path) => value.push_str(&shell_literal(&format!("${{{name}{path}}}"))),
            Piece::Command(command) => {
                commands.push_str(&format!("value_{at}=$({command}\n) || exit\n"));
                value.push_str(&format!("${{value_{at}}}"));
            }
        }
    }
    format!("{commands}printf '%s\\n' \"{value}\"")
}

/// Finds `${NAME.path}` and `${NAME[…]}` in a text for a shell and puts in their place what `replace` gives, which must be
/// a text for the inside of double quotes. Inside of single quotes the quotes are closed around it, for Dagu puts such
/// values in whatever quotes stand around them.
pub(super) fn replace_paths(text: &str, mut replace: impl FnMut(&str, &str) -> Option<String>) -> String {
    #[derive(Clone, Copy, PartialEq)]
    enum Quote {
        None,
        Single,
        Double,
    }
    let mut out = String::with_capacity(text.len());
    let mut quote = Quote::None;
    let mut rest = text;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let mut len = c.len_utf8();
        match (c, quote) {
            ('\\', Quote::None | Quote::Double) => {
                len += rest[1..].chars().next().map_or(0, char::len_utf8);
            }
            ('\'', Quote::None) => quote = Quote::Single,
            ('\'', Quote::Single) => quote = Quote::None,
            ('"', Quote::None) => quote = Quote::Double,
            ('"', Quote::Double) => quote = Quote::None,
            // An apostrophe in a comment opens nothing.
            ('#', Quote::None) if before.is_whitespace() => len = rest.find('\n').unwrap_or(rest.len()),
            ('$', _) => {
                let inner = rest.strip_prefix("${").and_then(|inner| inner.split_once('}'));
                if let Some((inner, tail)) = inner
                    && let Some(Piece::Path(name, path)) = braced(inner)
                    && let Some(value) = replace(&name, &path)
                {
                    match quote {
                        Quote::Single => out.push_str(&format!("'\"{value}\"'")),
                        Quote::None | Quote::Double => out.push_str(&value),
                    }
                    before = '}';
                    rest = tail;
                    continue;
                }
            }
            _ => {}
        }
        out.push_str(&rest[..len]);
        before = c;
        rest = &rest[len..];
    }
    out
}

/// Words of a `params` text: quotes and backticks keep white space together, and a name keeps its value. Each word says
/// whether it had a name.
pub(super) fn param_words(text: &str) -> Vec<(Option<String>, String)> {
    let mut words: Vec<(Option<String>, String)> = Vec::new();
    let (mut word, mut name, mut inside, mut quote) = (String::new(), None, false, None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => {
                quote = None;
                if c == '`' {
                    word.push(c);
                }
            }
            (Some('"') | None, '\\') => word.extend(chars.next()),
            (Some(_), c) => word.push(c),
            (None, '"' | '\'' | '`') => {
                (quote, inside) = (Some(c), true);
                if c == '`' {
                    word.push(c);
                }
            }
            (None, '=') if name.is_none() && !word.is_empty() && name_len(&word) == word.len() => {
                name = Some(std::mem::take(&mut word));
                inside = true;
            }
            (None, c) if c.is_whitespace() => {
                if inside {
                    words.push((name.take(), std::mem::take(&mut word)));
                }
                inside = false;
            }
            (None, c) => {
                word.push(c);
                inside = true;
            }
        }
    }
    if inside {
        words.push((name, word));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_as_dagu_reads_them() {
        use Piece::*;
        let check = |text: &str, expected: &[Piece]| assert_eq!(pieces(text), expected, "{text}");
        check("plain", &[Literal("plain".into())]);
        check("$A-${B}", &[Variable("A".into()), Literal("-".into()), Variable("B".into())]);
        check("a$$b", &[Literal("a".into()), Literal("b".into())]);
        check("$(date) 5$", &[Literal("$(date) 5$".into())]);
        check("${A:-x y}", &[WithDefault("A".into(), "x y".into())]);
        check("<`date +%F`>", &[Literal("<".into()), Command("date +%F".into()), Literal(">".into())]);
        check("${OUT.a[0]}", &[Path("OUT".into(), ".a[0]".into())]);
        check("$1st", &[Variable("1".into()), Literal("st".into())]);
        check("open `tick", &[Literal("open `tick".into())]);
    }

    #[test]
    fn paths_are_replaced_whatever_quotes_stand_around_them() {
        let check = |text: &str, expected: &str| {
            let found =
                replace_paths(text, |name, path| (name == "O").then(|| format!("${{v{}}}", &path[1..])));
            assert_eq!(found, expected, "{text}");
        };
        check("echo ${O.a} \"${O.b}\" '${O.c}'", "echo ${va} \"${vb}\" ''\"${vc}\"''");
        check("echo ${X.a} $O", "echo ${X.a} $O");
        check("# don't\necho ${O.a}", "# don't\necho ${va}");
        check("echo \\' ${O.a}", "echo \\' ${va}");
    }

    #[test]
    fn params_keep_what_is_quoted_together() {
        let words = param_words("a \"b c\" D=`date +%F` E='x y' f=g=h");
        let shown: Vec<String> =
            words.iter().map(|(name, value)| format!("{}:{value}", name.as_deref().unwrap_or("-"))).collect();
        assert_eq!(shown, ["-:a", "-:b c", "D:`date +%F`", "E:x y", "f:g=h"]);
    }
}
