//! Java properties: the text form of `server.properties` and `meta.properties`. `[P]`
//!
//! All of `java.util.Properties.load`: comments with `#` and `!`, `=`, `:` or a
//! blank as separator, lines continued by a backslash, escapes `\t \n \r \f
//! \u0041`, a backslash before anything else dropped.

use std::iter::Peekable;
use std::str::Chars;

/// One assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The key, unescaped.
    pub key: String,
    /// The value, unescaped; trailing blanks kept.
    pub value: String,
    /// The line it begins on, counted from 1.
    pub line: usize,
}

/// All assignments in order; a later one of the same key wins.
pub fn parse(text: &str) -> Vec<Property> {
    logical_lines(text).into_iter().map(|(line, logical)| assignment(line, &logical)).collect()
}

/// Joins continued lines, drops comments and blank lines.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut done: Vec<(usize, String)> = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, natural) in natural_lines(text).into_iter().enumerate() {
        let content = natural.trim_start_matches([' ', '\t', '\u{c}']);
        if open.is_none() && (content.is_empty() || content.starts_with(['#', '!'])) {
            continue;
        }
        let (line, mut logical) = open.take().unwrap_or((index + 1, String::new()));
        let slashes = content.bytes().rev().take_while(|byte| *byte == b'\\').count();
        if slashes % 2 == 1 {
            logical.push_str(content.strip_suffix('\\').unwrap_or(content));
            open = Some((line, logical));
        } else {
            logical.push_str(content);
            done.push((line, logical));
        }
    }
    done.extend(open.filter(|(_, logical)| !logical.is_empty()));
    done
}

/// Lines end with LF, CR or both.
fn natural_lines(text: &str) -> Vec<&str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r')).collect()
}

fn assignment(line: usize, logical: &str) -> Property {
    let mut escaped = false;
    let end = logical.find(|c: char| {
        let stop = !escaped && matches!(c, '=' | ':' | ' ' | '\t' | '\u{c}');
        escaped = c == '\\' && !escaped;
        stop
    });
    let (key, rest) = logical.split_at(end.unwrap_or(logical.len()));
    let blanks = [' ', '\t', '\u{c}'];
    let rest = rest.trim_start_matches(blanks);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(blanks);
    Property { key: unescape(key), value: unescape(value), line }
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => plain.push(unicode(&mut chars)),
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain
}

/// Up to four hexadecimal digits; surrogate pairs joined.
fn unicode(chars: &mut Peekable<Chars<'_>>) -> char {
    let first = hex4(chars);
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER);
    }
    let mut ahead = chars.clone();
    if ahead.next() == Some('\\') && ahead.next() == Some('u') {
        let second = hex4(&mut ahead);
        if (0xdc00..0xe000).contains(&second) {
            *chars = ahead;
            let joined = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER);
        }
    }
    char::REPLACEMENT_CHARACTER
}

fn hex4(chars: &mut Peekable<Chars<'_>>) -> u32 {
    let mut code = 0;
    for _ in 0..4 {
        match chars.peek().and_then(|c| c.to_digit(16)) {
            Some(digit) => code = code * 16 + digit,
            None => break,
        }
        chars.next();
    }
    code
}

/// Writes assignments so that Java reads them back.
pub fn write<'a>(assignments: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (key, value) in assignments {
        escape(key, true, &mut text);
        text.push('=');
        escape(value, false, &mut text);
        text.push('\n');
    }
    text
}

fn escape(plain: &str, is_key: bool, into: &mut String) {
    for (index, c) in plain.char_indices() {
        match c {
            ' ' if is_key || index == 0 => into.push_str("\\ "),
            '\t' => into.push_str("\\t"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\u{c}' => into.push_str("\\f"),
            '\\' | '=' | ':' | '#' | '!' => into.extend(['\\', c]),
            c => into.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).into_iter().map(|property| (property.key, property.value)).collect()
    }

    fn pair(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.into(), value.into())]
    }

    #[test]
    fn every_separator_of_java_is_understood() {
        for text in
            ["a=b", "a:b", "a b", "a = b", "  a\t:\t b", "a=b\r\n", "a\\\n  =b", "a=\\u0062"]
        {
            assert_eq!(pairs(text), pair("a", "b"), "{text:?}");
        }
        assert_eq!(pairs("listeners PLAINTEXT://:9092"), pair("listeners", "PLAINTEXT://:9092"));
        assert_eq!(pairs("a=b=c: d "), pair("a", "b=c: d "));
        assert_eq!(pairs("key"), pair("key", ""));
    }

    #[test]
    fn comments_blank_and_continued_lines() {
        let text = "# a=1\n! b=2\n\n   \nc=3,\\\n    4,\\\n    5\nd=6 # not a comment";
        let properties = parse(text);
        assert_eq!(properties.len(), 2);
        assert_eq!(properties[0], Property { key: "c".into(), value: "3,4,5".into(), line: 5 });
        assert_eq!(properties[1].value, "6 # not a comment");
        assert_eq!(properties[1].line, 8);
        assert_eq!(pairs("a=b\\\\\nc=d").len(), 2, "an escaped backslash does not continue");
        assert_eq!(pairs("a=b\\\n# c"), pair("a", "b# c"), "no comment within a continued line");
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(pairs("a\\ b\\=c\\:d=e"), pair("a b=c:d", "e"));
        assert_eq!(pairs("a=\\ud83d\\ude00\\z\\t"), pair("a", "\u{1f600}z\t"));
        assert_eq!(pairs("a=\\uD83D!"), pair("a", "\u{fffd}!"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(key in ".{1,12}", value in ".{0,20}") {
            let text = write([(key.as_str(), value.as_str())]);
            prop_assert_eq!(pairs(&text), pair(&key, &value));
        }

        #[test]
        fn no_text_is_refused(text in "[ -~\\n\\r\\t\\\\]{0,80}") {
            parse(&text);
        }
    }
}
