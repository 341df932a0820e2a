//! The page: each package with its services, messages and enums, and links between them.

use std::fmt::Write;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};

use super::comments::{self, Comments};

const HEAD: &str = "# API

Made from the comments of the files in [`proto/`](../proto/posthaste/v1); `tests/tidy` holds it against them. Errors are
explained in [errors](errors.md), the stream of agents in [protocol](protocol.md). All times are UTC, all sizes in bytes unless
a unit stands beside them. A field without a label may be left out and then has its type's zero value; `optional` ones tell
absence from zero.
";

/// The whole page.
pub(super) fn page(files: &[FileDescriptorProto]) -> String {
    let mut page = HEAD.to_owned();
    let mut package = "";
    for file in files {
        if file.package() != package {
            package = file.package();
            write!(page, "\n## Package `{package}`\n").expect("a string takes everything");
        }
        let comments = Comments::of(file);
        services(&mut page, file, &comments);
        for (name, path, message) in comments::messages(file) {
            section(&mut page, &name, comments.at(&path));
            fields(&mut page, &path, message, &comments);
        }
        for (name, path, one) in comments::enums(file) {
            section(&mut page, &name, comments.at(&path));
            page.push_str("\n| value | number | meaning |\n|---|---|---|\n");
            for (index, value) in one.value.iter().enumerate() {
                let text = cell(comments.at(&comments::value(&path, index)));
                writeln!(page, "| `{}` | {} | {text} |", value.name(), value.number()).expect("a string");
            }
        }
    }
    page
}

fn services(page: &mut String, file: &FileDescriptorProto, comments: &Comments) {
    for (index, service) in file.service.iter().enumerate() {
        let path = comments::service(index);
        section(page, service.name(), comments.at(&path));
        page.push_str("\n| call | request | answer | what it does |\n|---|---|---|---|\n");
        for (number, call) in service.method.iter().enumerate() {
            let stream = |streams: bool| if streams { "stream of " } else { "" };
            let (asks, answers) = (stream(call.client_streaming()), stream(call.server_streaming()));
            let text = cell(comments.at(&comments::method(&path, number)));
            let (request, answer) = (link(call.input_type()), link(call.output_type()));
            writeln!(page, "| `{}` | {asks}{request} | {answers}{answer} | {text} |", call.name()).expect("a string");
        }
    }
}

fn section(page: &mut String, name: &str, text: &str) {
    write!(page, "\n### {name}\n\n{text}\n").expect("a string takes everything");
}

fn fields(page: &mut String, path: &[i32], message: &DescriptorProto, comments: &Comments) {
    if message.field.is_empty() {
        page.push_str("\nNo fields.\n");
        return;
    }
    page.push_str("\n| field | type | meaning |\n|---|---|---|\n");
    for (index, field) in message.field.iter().enumerate() {
        let text = cell(comments.at(&comments::field(path, index)));
        writeln!(page, "| `{}` = {} | {} | {text} |", field.name(), field.number(), kind(field, message))
            .expect("a string");
    }
}

/// A field's type as the file has it.
fn kind(field: &FieldDescriptorProto, message: &DescriptorProto) -> String {
    let own = match field.r#type() {
        Type::Message | Type::Enum => link(field.type_name()),
        scalar => format!("`{}`", scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase()),
    };
    let pair = message.nested_type.iter().find(|inner| {
        inner.options.as_ref().is_some_and(|options| options.map_entry())
            && field.type_name().ends_with(&format!(".{}", inner.name()))
    });
    if let Some(pair) = pair {
        return format!("map of {} to {}", kind(&pair.field[0], pair), kind(&pair.field[1], pair));
    }
    let choice = field.oneof_index.filter(|_| !field.proto3_optional());
    match (field.label(), field.proto3_optional(), choice) {
        (Label::Repeated, _, _) => format!("repeated {own}"),
        (_, true, _) => format!("optional {own}"),
        (_, _, Some(index)) => {
            let index = usize::try_from(index).expect("an index");
            format!("{own}, one of `{}`", message.oneof_decl[index].name())
        }
        _ => own,
    }
}

/// A link to one of our types; the name alone of one of another's.
fn link(full_name: &str) -> String {
    let name = full_name.trim_start_matches('.');
    let own = name.strip_prefix("posthaste.v1.").or_else(|| name.strip_prefix("posthaste.dispatch.v1."));
    match own {
        Some(own) => format!("[{own}](#{})", own.to_lowercase().replace('.', "")),
        None => format!("`{name}`"),
    }
}

/// Text for a cell of a table: one line, and nothing that ends the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace("\nErrors:", "<br>Errors:").replace('\n', " ")
}
