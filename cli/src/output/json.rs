//! ProtoJSON by way of the descriptors: the fields' own names, 64-bit numbers as strings, bytes as base64, and every field
//! that has a default, so that a program finds `delivery_count` also when it is 0.

use std::sync::OnceLock;

use posthaste_proto::DESCRIPTORS;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};

/// Why an answer can't be written as JSON.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("the descriptors of this program are damaged")]
    Descriptors(#[from] prost_reflect::DescriptorError),
    #[error("this program has no descriptor of {0}")]
    Unknown(&'static str),
    #[error("the answer doesn't fit its descriptor")]
    Decode(#[from] prost::DecodeError),
    #[error("the answer can't be written as JSON")]
    Write(#[from] serde_json::Error),
}

/// The document of a message of the type `name`.
pub(super) fn document(name: &'static str, message: &impl Message) -> Result<String, JsonError> {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    let pool = match POOL.get() {
        Some(pool) => pool,
        None => {
            let pool = DescriptorPool::decode(DESCRIPTORS)?;
            POOL.get_or_init(|| pool)
        }
    };
    let descriptor = pool.get_message_by_name(name).ok_or(JsonError::Unknown(name))?;
    let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())?;
    let options = SerializeOptions::new().use_proto_field_name(true).skip_default_fields(false);
    let mut serializer = serde_json::Serializer::pretty(Vec::new());
    dynamic.serialize_with_options(&mut serializer, &options)?;
    Ok(String::from_utf8_lossy(&serializer.into_inner()).into_owned())
}
