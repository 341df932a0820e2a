//! Log files of child processes: appended to, cut off at the next start when they have grown, quoted in errors.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// A file longer than this is set aside as `….old` when it is opened.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How much of its end is quoted.
const TAIL_BYTES_MAX: u64 = 4096;
const TAIL_LINES_MAX: usize = 12;

/// Opens `path` for appending.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|meta| meta.len() > FILE_BYTES_MAX) {
        fs::rename(path, path.with_extension("log.old"))?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

/// The last lines of what was written after `start` (bytes); empty when there is nothing to read.
pub(crate) fn tail(path: &Path, start: u64) -> String {
    read_end(path, start).map(|text| last_lines(&text)).unwrap_or_default()
}

fn read_end(path: &Path, start: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(start.max(end.saturating_sub(TAIL_BYTES_MAX))))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES_MAX)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_is_bounded_and_starts_where_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part.log");
        assert_eq!(tail(&path, 0), "");
        let lines: Vec<String> = (1..=20).map(|n| format!("line {n}")).collect();
        fs::write(&path, lines.join("\n")).unwrap();
        assert_eq!(tail(&path, 0), lines[8..].join("\n"));
        let start = fs::metadata(&path).unwrap().len() - 7;
        assert_eq!(tail(&path, start), "line 20");
    }
}
