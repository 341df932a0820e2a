//! The folder of the server's Unix socket: private, and short enough for the system's limit.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::Error;
use super::user::User;

/// The port that is part of the socket's name; no network port is opened.
pub(super) const PORT: u16 = 5432;

/// What `sockaddr_un.sun_path` holds besides its closing zero byte.
const PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// The socket's folder for a server that keeps its files in `folder`: `run/` there when the path fits, else a folder
/// under `/tmp` whose name is fixed by `folder`.
pub(super) fn folder(folder: &Path, user: &User) -> Result<PathBuf, Error> {
    let own = folder.join("run");
    let chosen = if fits(&own) {
        own
    } else {
        Path::new("/tmp").join(format!("posthaste-{}-{:016x}", user.uid(), fnv1a(folder.as_os_str().as_bytes())))
    };
    make_private(&chosen, user)?;
    Ok(chosen)
}

/// The socket in `folder`.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(format!(".s.PGSQL.{PORT}"))
}

/// Whether the socket's path is within the limit and survives `unix_socket_directories`, which is a list.
fn fits(folder: &Path) -> bool {
    let bytes = folder.as_os_str().as_bytes();
    path(folder).as_os_str().len() <= PATH_BYTES_MAX && !bytes.iter().any(|b| b",\"' \\".contains(b))
}

/// Makes the folder, or checks that nobody else made it: under `/tmp` anybody could have taken the name.
fn make_private(folder: &Path, user: &User) -> Result<(), Error> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => return user.own(folder),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Error::file("creating", folder)(error)),
    }
    let meta = fs::symlink_metadata(folder).map_err(Error::file("looking at", folder))?;
    let refuse = |why| Err(Error::Socket { folder: folder.to_owned(), why });
    if !meta.is_dir() {
        refuse("it is not a folder")
    } else if meta.uid() != user.uid() {
        refuse("it belongs to another user")
    } else if meta.mode() & 0o077 != 0 {
        refuse("other users may enter it; its mode must be 0700")
    } else {
        Ok(())
    }
}

/// FNV-1a: a name that is the same in every run and every build.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_odd_paths_do_not_fit() {
        let name_bytes = "/.s.PGSQL.5432".len();
        let check = |folder: String, expected| assert_eq!(fits(Path::new(&folder)), expected, "{folder}");
        check("/srv/posthaste/run".into(), true);
        check(format!("/{}", "x".repeat(PATH_BYTES_MAX - name_bytes - 1)), true);
        check(format!("/{}", "x".repeat(PATH_BYTES_MAX - name_bytes)), false);
        check("/srv/a,b".into(), false);
        check("/srv/a \"b".into(), false);
    }

    #[test]
    fn hash_known_answer() {
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
