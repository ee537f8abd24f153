//! The little JSON that a decider needs: lists of items that an earlier step printed, and results that go to later steps.

/// A text in quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Names and values as an object.
pub(crate) fn object(pairs: &[(Box<str>, Box<str>)]) -> String {
    let members: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}:{}", quoted(name), quoted(value))).collect();
    format!("{{{}}}", members.join(","))
}

/// The items of a list in JSON: texts without their quotes, everything else as it is written. At most `max` of them.
pub(crate) fn list(text: &str, max: usize) -> Result<Vec<String>, String> {
    let inner = text.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let Some(mut rest) = inner.map(str::trim) else { return Err("it is no list in JSON".into()) };
    let mut items = Vec::new();
    while !rest.is_empty() {
        if items.len() == max {
            return Err(format!("it has more than {max} items"));
        }
        let end = end_of_value(rest).ok_or("it is no JSON: a text or a bracket is not closed")?;
        let item = rest[..end].trim();
        if item.is_empty() {
            return Err("it is no JSON: there is nothing between two commas".into());
        }
        items.push(match item.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(text) => unescaped(text).ok_or("it is no JSON: a text has a wrong escape")?,
            None if item.starts_with('"') => return Err("it is no JSON: a text is not closed".into()),
            None if is_plain(item) => item.to_owned(),
            None => return Err(format!("it is no JSON: `{}`", item.chars().take(40).collect::<String>())),
        });
        rest = rest[end..].trim_start();
        match rest.strip_prefix(',') {
            Some(tail) if !tail.trim().is_empty() => rest = tail.trim_start(),
            Some(_) => return Err("it is no JSON: it ends with a comma".into()),
            None => break,
        }
    }
    Ok(items)
}

/// Where the value ends that a text begins with: at the next comma outside of texts and brackets.
fn end_of_value(text: &str) -> Option<usize> {
    let (mut depth, mut in_text, mut escaped) = (0_u32, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_text => escaped = true,
            '"' => in_text = !in_text,
            _ if in_text => {}
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    (depth == 0 && !in_text).then_some(text.len())
}

/// A number, a word of JSON, a list or an object. What is inside of those nobody reads here.
fn is_plain(item: &str) -> bool {
    matches!(item, "true" | "false" | "null")
        || item.parse::<f64>().is_ok_and(f64::is_finite)
        || item.starts_with('[') && item.ends_with(']')
        || item.starts_with('{') && item.ends_with('}')
}

fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    let hex = |chars: &mut std::str::Chars<'_>| -> Option<u32> {
        let digits: String = chars.take(4).collect();
        u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4)
    };
    while let Some(c) = chars.next() {
        if c == '"' {
            return None;
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => match hex(&mut chars)? {
                high @ 0xd800..=0xdbff => {
                    let low = (chars.next() == Some('\\') && chars.next() == Some('u'))
                        .then(|| hex(&mut chars))??;
                    let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                    char::from_u32(0x10000 + ((high - 0xd800) << 10) + low)?
                }
                code => char::from_u32(code)?,
            },
            c @ ('"' | '\\' | '/') => c,
            _ => return None,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(
                list(text, 9).as_deref(),
                Ok(&expected.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>()[..]),
                "{text}"
            )
        };
        check("[]", &[]);
        check(" [ 1, -2.5e3 ,true, null ] ", &["1", "-2.5e3", "true", "null"]);
        check(r#"["a, b", "c\"]", "\u00e9\n\ud83d\ude00"]"#, &["a, b", "c\"]", "é\n😀"]);
        check(r#"[{"a": [1, "]"]}, [2, 3]]"#, &[r#"{"a": [1, "]"]}"#, "[2, 3]"]);
        for bad in [
            "",
            "{}",
            "[",
            "[1",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[\"a]",
            "[a]",
            "[\"\\x\"]",
            "[}]",
            "[\"\\ud800\"]",
            "[\"a\" \"b\"]",
        ] {
            assert!(list(bad, 9).is_err(), "{bad}");
        }
        assert_eq!(list("[1,2,3]", 2), Err("it has more than 2 items".into()));
    }

    #[test]
    fn results_are_written() {
        assert_eq!(object(&[("a".into(), "x\n\"\u{1}".into())]), r#"{"a":"x\n\"\u0001"}"#);
    }
}
