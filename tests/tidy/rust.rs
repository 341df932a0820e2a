//! As much of Rust's grammar as the rules need: code without comments, string literals, whole words.

/// A piece of a source file.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Code(&'a str),
    Comment(&'a str),
    /// What stands between the quotes, escapes left as they are.
    Literal(&'a str),
}

/// A string literal and the line it begins on, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Lines of code with their numbers, comments and what stands in string literals left out.
pub(crate) fn code_lines(source: &str) -> Vec<(usize, String)> {
    let mut code = String::new();
    for piece in pieces(source) {
        match piece {
            Piece::Code(text) => code.push_str(text),
            Piece::Comment(text) | Piece::Literal(text) => code.extend(text.chars().filter(|c| *c == '\n')),
        }
    }
    code.lines().map(str::to_owned).enumerate().map(|(index, line)| (index + 1, line)).collect()
}

/// Every string literal.
pub(crate) fn literals(source: &str) -> Vec<Literal> {
    let mut line = 1;
    let mut found = Vec::new();
    for piece in pieces(source) {
        let (Piece::Code(text) | Piece::Comment(text) | Piece::Literal(text)) = piece;
        if let Piece::Literal(text) = piece {
            found.push(Literal { line, text: text.to_owned() });
        }
        line += text.matches('\n').count();
    }
    found
}

/// Whether `word` stands in `line` without a letter, digit or `_` touching it.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(joins) && word.starts_with(joins);
        let after = line[at + word.len()..].chars().next().is_some_and(joins) && word.ends_with(joins);
        !before && !after
    })
}

fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < source.len() {
        let rest = &source[at..];
        let special = if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            Some((0, Piece::Comment(&rest[..end]), end))
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
            Some((0, Piece::Comment(&rest[..end]), end))
        } else if rest.starts_with('"') {
            let end = end_of_string(rest);
            Some((1, Piece::Literal(&rest[1..end - 1]), end))
        } else if let Some(hashes) = raw_string(source, at) {
            let open = hashes + 2;
            let close = format!("\"{}", "#".repeat(hashes));
            let body = rest[open..].find(&close).unwrap_or(rest.len() - open);
            Some((open, Piece::Literal(&rest[open..open + body]), open + body + close.len()))
        } else {
            None
        };
        match special {
            Some((_, piece, length)) => {
                found.push(Piece::Code(&source[from..at]));
                found.push(piece);
                at += length;
                from = at;
            }
            None => at += after_plain(rest),
        }
    }
    found.push(Piece::Code(&source[from.min(source.len())..]));
    found
}

/// The length of a quoted string with both quotes.
fn end_of_string(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// How many `#` open a raw string here, if one begins.
fn raw_string(source: &str, at: usize) -> Option<usize> {
    let rest = source[at..].strip_prefix('r')?;
    let part_of_a_name = source[..at].ends_with(|c: char| c.is_alphanumeric() && c != 'b' || c == '_');
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    (!part_of_a_name && rest[hashes..].starts_with('"')).then_some(hashes)
}

/// Steps over one character of code; a character literal such as `'"'` as a whole.
fn after_plain(rest: &str) -> usize {
    for literal in ["'\"'", "'\\''", "'\\\\'", "'\\\"'"] {
        if rest.starts_with(literal) {
            return literal.len();
        }
    }
    rest.chars().next().map_or(1, char::len_utf8)
}

#[test]
fn strings_and_comments_are_told_from_code() {
    let source =
        "let a = \"x // no\"; // yes \"no\"\nlet q = '\"'; /* sqlx */ let b = r#\"SELECT\n\"1\"\"#; tonic::go()";
    let texts: Vec<_> = literals(source).into_iter().map(|literal| (literal.line, literal.text)).collect();
    assert_eq!(texts, [(1, "x // no".to_owned()), (2, "SELECT\n\"1\"".to_owned())]);
    let code = code_lines(source);
    assert!(has_word(&code[2].1, "tonic") && !code.iter().any(|(_, line)| has_word(line, "sqlx")), "{code:?}");
    assert!(!has_word("atonic tonic_x", "tonic") && has_word("a(tonic::x", "tonic"));
}
