//! Where the program under test is.

use std::env;
use std::path::PathBuf;

/// The name of this crate's binary: the `posthaste` command, as `cli` builds it, and the keeper of the shared server.
pub const NAME: &str = "posthaste-under-test";

/// Its path. Cargo builds it together with this crate's tests, two folders above them.
///
/// # Panics
/// When it isn't there: a test outside this crate runs, and nobody built this crate before.
pub fn path() -> PathBuf {
    for name in [format!("NEXTEST_BIN_EXE_{NAME}"), format!("CARGO_BIN_EXE_{NAME}")] {
        if let Some(path) = env::var_os(name) {
            return path.into();
        }
    }
    let own = env::current_exe().expect("a test knows its own path");
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join(NAME)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{NAME} is not built beside {}; run cargo build -p posthaste-tests", own.display()))
}

/// Another program of the workspace, such as `posthaste-agent`; `cargo build --workspace` puts them all in one folder.
///
/// # Panics
/// When nobody built it.
pub fn beside(name: &str) -> PathBuf {
    let found = path().with_file_name(name);
    assert!(found.is_file(), "{} is missing; run cargo build --workspace", found.display());
    found
}
