//! The API reference is made from the comments of the `.proto` files, and every item there has one.
//!
//! `UPDATE_DOCS=1 cargo nextest run --workspace --test tidy -E 'test(api::)'` writes it anew.

mod comments;
mod page;

use std::collections::BTreeSet;

use posthaste_proto::DESCRIPTORS;
use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

use crate::docs::reasons;
use crate::tree::{assert_clean, assert_finds, file, root};
use comments::{Comments, Item};

const PAGE: &str = "docs/api.md";
const UPDATE: &str = "UPDATE_DOCS";

/// Our files, in the order of their names; those of others have their own documents.
fn ours() -> Vec<FileDescriptorProto> {
    let all = FileDescriptorSet::decode(DESCRIPTORS).expect("the descriptors decode");
    let mut files: Vec<_> = all.file.into_iter().filter(|file| file.package().starts_with("posthaste.")).collect();
    // What producers call comes before what agents speak.
    files.sort_by_key(|file| (file.package().contains("dispatch"), file.name().to_owned()));
    files
}

/// Items that have no comment, and comments that are no sentences.
fn uncommented(files: &[FileDescriptorProto]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        let comments = Comments::of(file);
        for Item { name, path } in comments::items(file) {
            let text = comments.at(&path);
            if text.is_empty() {
                problems.push(format!("{}: {name} has no comment", file.name()));
            } else if !text.ends_with(['.', ')']) {
                problems.push(format!("{}: the comment of {name} ends without a full stop", file.name()));
            }
        }
    }
    problems
}

/// Reasons that a comment names and error.proto doesn't have.
fn unknown_reasons(files: &[FileDescriptorProto], reasons: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        let comments = Comments::of(file);
        for Item { name, path } in comments::items(file) {
            let Some((_, errors)) = comments.at(&path).split_once("Errors:") else { continue };
            let words = errors.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let shouted = words.filter(|word| word.len() > 4 && *word == word.to_uppercase());
            let unknown = shouted.filter(|word| !reasons.contains(*word));
            problems.extend(unknown.map(|word| format!("{}: {name} can't answer {word}", file.name())));
        }
    }
    problems
}

#[test]
fn every_error_that_a_comment_names_exists() {
    assert_clean(&unknown_reasons(&ours(), &reasons(file("proto/posthaste/v1/error.proto"))));
    let some = BTreeSet::from(["ACCOUNT_EXISTS".to_owned()]);
    assert_finds(&unknown_reasons(&ours(), &some), "AccountService.GetAccount can't answer ACCOUNT_NOT_FOUND");
}

#[test]
fn every_item_of_the_protocol_has_a_comment() {
    let files = ours();
    let items: usize = files.iter().map(|file| comments::items(file).len()).sum();
    assert!(items > 300, "only {items} items");
    assert_clean(&uncommented(&files));
}

#[test]
fn the_api_reference_is_what_the_comments_say() {
    let wanted = page::page(&ours());
    let path = root().join(PAGE);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &wanted).expect("writes the page");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let apart = found.lines().zip(wanted.lines()).position(|(found, wanted)| found != wanted);
    assert!(
        found == wanted,
        "{PAGE} is stale from line {} on; write it with {UPDATE}=1",
        apart.unwrap_or_else(|| found.lines().count().min(wanted.lines().count())) + 1
    );
}

#[test]
fn planted_items_without_comment_are_found() {
    let mut files = ours();
    let file = &mut files[0];
    let info = file.source_code_info.as_mut().expect("has comments");
    let (mut bare, mut endless) = (0, 0);
    for location in &mut info.location {
        match location.path.as_slice() {
            // The first message, and its first field.
            [4, 0] => (location.leading_comments, bare) = (None, bare + 1),
            [4, 0, 2, 0] => (location.leading_comments, endless) = (Some(" No end".to_owned()), endless + 1),
            _ => {}
        }
    }
    assert_eq!((bare, endless), (1, 1));
    assert_finds(&uncommented(&files), "has no comment");
    assert_finds(&uncommented(&files), "ends without a full stop");
}
