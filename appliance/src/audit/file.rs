//! The files of the audit log: lines are appended to the newest, which is rotated when it is full.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The size of one file: some thirty thousand records.
pub(super) const FILE_BYTES_MAX: u64 = 8 << 20;
/// The number of files, the newest included: a quarter of a million records in 64 MiB.
pub(super) const FILES_MAX: usize = 8;
/// How far back the end of the last whole line is looked for; the longest line has a few kilobytes.
const TORN_BYTES_MAX: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct LogFiles {
    folder: PathBuf,
    file_bytes_max: u64,
    newest: File,
    /// The length of the whole lines in the newest file.
    length: u64,
    /// Says that the last write failed: the file may end with a part of a line.
    is_torn: bool,
}

impl LogFiles {
    pub(super) fn open(folder: &Path, file_bytes_max: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut newest = append_to(&name(folder, 0))?;
        let length = whole_lines(&mut newest)?;
        newest.set_len(length)?;
        Ok(Self { folder: folder.to_owned(), file_bytes_max, newest, length, is_torn: false })
    }

    /// Appends a line, which ends with a line feed: the whole line, or nothing.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.newest.set_len(self.length)?;
            self.is_torn = false;
        }
        if self.length > 0 && self.length + line.len() as u64 > self.file_bytes_max {
            self.rotate()?;
        }
        self.is_torn = true;
        self.newest.write_all(line)?;
        self.is_torn = false;
        self.length += line.len() as u64;
        Ok(())
    }

    /// Returns all files, the oldest first, each with the number of bytes of whole lines in it.
    pub(super) fn parts(&self) -> io::Result<Vec<(File, u64)>> {
        let mut parts = Vec::with_capacity(FILES_MAX);
        for number in (0..FILES_MAX).rev() {
            match File::open(name(&self.folder, number)) {
                Ok(file) => {
                    let length = if number == 0 { self.length } else { file.metadata()?.len() };
                    parts.push((file, length));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(parts)
    }

    #[cfg(test)]
    pub(super) fn newest(&mut self) -> &mut File {
        &mut self.newest
    }

    fn rotate(&mut self) -> io::Result<()> {
        // A power cut loses at most the last moments of a file that is no longer written.
        self.newest.sync_data()?;
        // If the newest was renamed and no new one could be made, all have been renamed: to do it once more would drop
        // the oldest for nothing.
        let moving = if name(&self.folder, 0).try_exists()? { 1..FILES_MAX } else { 0..0 };
        for number in moving.rev() {
            match fs::rename(name(&self.folder, number - 1), name(&self.folder, number)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        self.newest = append_to(&name(&self.folder, 0))?;
        self.length = 0;
        Ok(())
    }
}

fn name(folder: &Path, number: usize) -> PathBuf {
    folder.join(if number == 0 { "audit.jsonl".to_owned() } else { format!("audit.{number}.jsonl") })
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)
}

/// Finds the end of the last whole line.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(TORN_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.take(TORN_BYTES_MAX).read_to_end(&mut end)?;
    Ok(end.iter().rposition(|byte| *byte == b'\n').map_or(from, |at| from + at as u64 + 1))
}
