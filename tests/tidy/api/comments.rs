//! What stands above each item of a `.proto` file.

use std::collections::HashMap;

use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};

/// Numbers of fields of `FileDescriptorProto`, `DescriptorProto`, …: the steps of a path (descriptor.proto).
const MESSAGE: i32 = 4;
const ENUM: i32 = 5;
const SERVICE: i32 = 6;
const FIELD: i32 = 2;
const NESTED_MESSAGE: i32 = 3;
const NESTED_ENUM: i32 = 4;
const VALUE: i32 = 2;
const METHOD: i32 = 2;

/// Something that needs a comment.
pub(super) struct Item {
    /// Such as `Endpoint.State.ENABLED`.
    pub(super) name: String,
    pub(super) path: Vec<i32>,
}

/// A file's comments by the path of what they stand above.
pub(super) struct Comments(HashMap<Vec<i32>, String>);

impl Comments {
    pub(super) fn of(file: &FileDescriptorProto) -> Self {
        let info = file.source_code_info.clone().unwrap_or_default();
        let comments = info.location.into_iter().filter_map(|location| {
            let text = location.leading_comments?;
            Some((location.path, text.lines().map(str::trim).collect::<Vec<_>>().join("\n").trim().to_owned()))
        });
        Self(comments.collect())
    }

    /// The comment, its lines joined by line ends; empty if there is none.
    pub(super) fn at(&self, path: &[i32]) -> &str {
        self.0.get(path).map_or("", String::as_str)
    }
}

/// The path of one of `parent`'s parts.
fn step(parent: &[i32], field: i32, index: usize) -> Vec<i32> {
    [parent, &[field, i32::try_from(index).expect("a file is small")]].concat()
}

/// The messages at the top of a file with their paths, and those inside them; without the pairs that maps are made of.
pub(super) fn messages(file: &FileDescriptorProto) -> Vec<(String, Vec<i32>, &DescriptorProto)> {
    fn walk<'a>(
        within: &str,
        path: Vec<i32>,
        message: &'a DescriptorProto,
        all: &mut Vec<(String, Vec<i32>, &'a DescriptorProto)>,
    ) {
        if message.options.as_ref().is_some_and(|options| options.map_entry()) {
            return;
        }
        let name = format!("{within}{}", message.name());
        all.push((name.clone(), path.clone(), message));
        for (index, inner) in message.nested_type.iter().enumerate() {
            walk(&format!("{name}."), step(&path, NESTED_MESSAGE, index), inner, all);
        }
    }
    let mut all = Vec::new();
    for (index, message) in file.message_type.iter().enumerate() {
        walk("", step(&[], MESSAGE, index), message, &mut all);
    }
    all
}

/// The enums of a file, also those inside messages.
pub(super) fn enums(file: &FileDescriptorProto) -> Vec<(String, Vec<i32>, &EnumDescriptorProto)> {
    let top = file.enum_type.iter().enumerate();
    let mut all: Vec<_> = top.map(|(index, one)| (one.name().to_owned(), step(&[], ENUM, index), one)).collect();
    for (name, path, message) in messages(file) {
        let inner = message.enum_type.iter().enumerate();
        all.extend(inner.map(|(index, one)| (format!("{name}.{}", one.name()), step(&path, NESTED_ENUM, index), one)));
    }
    all
}

/// The paths of a message's fields.
pub(super) fn field(message: &[i32], index: usize) -> Vec<i32> {
    step(message, FIELD, index)
}

/// The paths of an enum's values.
pub(super) fn value(of: &[i32], index: usize) -> Vec<i32> {
    step(of, VALUE, index)
}

/// The path of a service.
pub(super) fn service(index: usize) -> Vec<i32> {
    step(&[], SERVICE, index)
}

/// The paths of a service's calls.
pub(super) fn method(service: &[i32], index: usize) -> Vec<i32> {
    step(service, METHOD, index)
}

/// Everything that needs a comment.
pub(super) fn items(file: &FileDescriptorProto) -> Vec<Item> {
    let mut items = Vec::new();
    let mut add = |name: String, path: Vec<i32>| items.push(Item { name, path });
    for (index, one) in file.service.iter().enumerate() {
        add(one.name().to_owned(), service(index));
        for (number, call) in one.method.iter().enumerate() {
            add(format!("{}.{}", one.name(), call.name()), method(&service(index), number));
        }
    }
    for (name, path, message) in messages(file) {
        for (index, one) in message.field.iter().enumerate() {
            add(format!("{name}.{}", one.name()), field(&path, index));
        }
        add(name, path);
    }
    for (name, path, one) in enums(file) {
        for (index, each) in one.value.iter().enumerate() {
            add(format!("{name}.{}", each.name()), value(&path, index));
        }
        add(name, path);
    }
    items
}
