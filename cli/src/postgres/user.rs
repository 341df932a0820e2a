//! Who runs the server. Postgres refuses to run as root, so root hands it to an unprivileged user.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Error;

/// Users to run the server as, best first: Debian's package makes the first one.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// The user that the server's programs run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum User {
    /// Whoever runs this process, who is not root.
    Own,
    /// This process is root and drops to another user.
    Other { name: String, uid: u32, gid: u32 },
}

impl User {
    /// The user for the server of `folder`: for root the one that owns the cluster there, else the first candidate.
    pub(super) fn for_folder(folder: &Path) -> Result<Self, Error> {
        let owner = fs::metadata(folder.join("data")).ok().map(|meta| (meta.uid(), meta.gid()));
        let own = rustix::process::geteuid().as_raw();
        match owner {
            Some((uid, _)) if own != 0 && uid != own => Err(Error::NotOwner { folder: folder.join("data"), uid }),
            _ if own != 0 => Ok(Self::Own),
            Some((uid, gid)) if uid != 0 => Ok(Self::Other { name: format!("uid {uid}"), uid, gid }),
            _ => {
                let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
                CANDIDATES.iter().find_map(|name| Self::from_passwd(&passwd, name)).ok_or(Error::NoUser)
            }
        }
    }

    fn from_passwd(passwd: &str, name: &str) -> Option<Self> {
        passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let found = fields.next()? == name;
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            (found && uid != 0).then(|| Self::Other { name: name.to_owned(), uid, gid })
        })
    }

    /// A command that runs as this user, from a folder that every user may enter, reading nothing.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").stdin(Stdio::null());
        // A terminal's or a caller's settings for other servers don't concern this one.
        for name in ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS", "LC_ALL", "LANG"] {
            command.env_remove(name);
        }
        if let Self::Other { uid, gid, .. } = self {
            command.uid(*uid).gid(*gid);
        }
        command
    }

    /// The numeric id that the server's files belong to.
    pub(super) fn uid(&self) -> u32 {
        match self {
            Self::Own => rustix::process::geteuid().as_raw(),
            Self::Other { uid, .. } => *uid,
        }
    }

    /// Gives `path` to this user.
    pub(super) fn own(&self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Own => Ok(()),
            Self::Other { uid, gid, .. } => {
                chown(path, Some(*uid), Some(*gid)).map_err(Error::file("giving away", path))
            }
        }
    }

    /// Refuses a `folder` that this user can't reach, naming the first closed folder on the way.
    pub(super) fn check_reach(&self, folder: &Path) -> Result<(), Error> {
        let Self::Other { name, uid, gid } = self else { return Ok(()) };
        let mut parents: Vec<&Path> = folder.ancestors().collect();
        parents.reverse();
        for parent in parents {
            let meta = fs::metadata(parent).map_err(Error::file("looking at", parent))?;
            let bit = match (meta.uid() == *uid, meta.gid() == *gid) {
                (true, _) => 0o100,
                (false, true) => 0o010,
                (false, false) => 0o001,
            };
            if meta.mode() & bit == 0 {
                return Err(Error::NotTraversable { user: name.clone(), folder: parent.to_owned() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwd_lines() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\npostgres:x:0:0::/:\nbroken\nnobody:x:65534:65533:n:/:/bin/false\n";
        let check = |name, expected: Option<(u32, u32)>| {
            let found = User::from_passwd(passwd, name).map(|user| match user {
                User::Other { uid, gid, .. } => (uid, gid),
                User::Own => (0, 0),
            });
            assert_eq!(found, expected, "{name}");
        };
        check("nobody", Some((65534, 65533)));
        check("postgres", None);
        check("somebody", None);
    }
}
