//! The files: the newest is appended to, and moves on when it is full.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Of one file: some thirty thousand records.
pub(super) const FILE_BYTES_MAX: u64 = 8 << 20;
/// Files that are kept, the newest included: a quarter of a million records in 64 MiB.
pub(super) const FILES_MAX: usize = 8;
/// The last line is looked for in no more than that: the longest one has a few kilobytes.
const TORN_BYTES_MAX: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct LogFiles {
    folder: PathBuf,
    file_bytes_max: u64,
    newest: File,
    /// Of the newest, in whole lines.
    length: u64,
    /// The last write failed, and may have left a part of its line.
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

    /// Appends a line, which ends with its line feed: whole, or not at all.
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

    /// All files, the oldest first, each with the bytes of whole lines in it.
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
        // A power cut loses no more than the last moments of what is no longer written.
        self.newest.sync_data()?;
        // Where the newest was moved on and none could be made in its place, all have moved on: once more would
        // push out the oldest for nothing.
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

/// Where the last whole line ends.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(TORN_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.take(TORN_BYTES_MAX).read_to_end(&mut end)?;
    Ok(end.iter().rposition(|byte| *byte == b'\n').map_or(from, |at| from + at as u64 + 1))
}
