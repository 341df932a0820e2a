//! Feeds libFuzzer's inputs to the check of the same name.
#![no_main]

#[path = "../src/checks/mod.rs"]
#[allow(dead_code, reason = "each target runs one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::headers::check(data));
