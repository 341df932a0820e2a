//! The blocks of code on a page of Markdown.

use std::fs;
use std::path::PathBuf;

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// Such as `sh`.
    pub(crate) language: String,
    /// What follows the language, such as `terminal`.
    pub(crate) note: String,
    pub(crate) text: String,
    /// The file that the line before the block links to, from the repository's root.
    pub(crate) file: Option<String>,
}

/// A path from the repository's root.
pub(crate) fn repository(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}

/// The blocks of this page, in their order.
pub(crate) fn blocks(path: &str) -> Vec<Block> {
    parse(&fs::read_to_string(repository(path)).unwrap())
}

fn parse(text: &str) -> Vec<Block> {
    let (mut blocks, mut before) = (Vec::new(), "");
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let (language, note) = info.split_once(' ').unwrap_or((info, ""));
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push(Block {
                language: language.to_owned(),
                note: note.to_owned(),
                text: body.iter().map(|line| format!("{line}\n")).collect(),
                file: linked(before),
            });
            before = "";
        } else if !line.is_empty() {
            before = line;
        }
    }
    blocks
}

/// `[examples/a.py](../examples/a.py):` names the file of the block that follows.
fn linked(line: &str) -> Option<String> {
    let (name, rest) = line.strip_prefix('[')?.split_once("](")?;
    rest.ends_with("):").then(|| name.to_owned())
}

#[test]
fn blocks_are_found_with_their_files() {
    let blocks = parse("# A\n\n[x/a.py](../x/a.py):\n\n```python\nb = 1\n\nc\n```\ntext\n```sh terminal\nls\n```\n");
    let [first, second] = &blocks[..] else { panic!("{blocks:?}") };
    assert_eq!((first.language.as_str(), first.text.as_str()), ("python", "b = 1\n\nc\n"));
    assert_eq!(first.file.as_deref(), Some("x/a.py"));
    assert_eq!((second.note.as_str(), second.text.as_str(), &second.file), ("terminal", "ls\n", &None));
}
