//! What must hold for every input from outside: one check for each reader of such input. Run by the fuzz targets and, over
//! the corpus and generated inputs, by the domain's ordinary tests.

pub(crate) mod headers;
pub(crate) mod retry_after;
pub(crate) mod signature;
pub(crate) mod url;
