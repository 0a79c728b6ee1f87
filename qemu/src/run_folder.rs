//! One folder per run in the cache, for sockets, logs, disks and the appliance's data. Removed when
//! the run ends; what a killed run left is removed by the next one.

use std::path::{Path, PathBuf};
use std::{fs, io};

use thiserror::Error;

/// A Unix socket's path has at most 107 bytes; the longest name below a run's folder is
/// `hosts/host-NN/console.sock`.
const FOLDER_BYTES_MAX: usize = 75;

#[derive(Debug, Error)]
pub enum RunError {
    #[error("making the run's folder {}", path.display())]
    Make {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the path {} is too long for sockets: set FIRESTEEL_CACHE to a shorter one", path.display())]
    TooLong { path: PathBuf },
}

/// The folder of a run, which is removed with all it holds when dropped.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// A folder for this process. It stays this process's across `exec`: see [`RunFolder::adopt`].
    pub fn create(cache: &Path) -> Result<Self, RunError> {
        let runs = cache.join("runs");
        let path = runs.join(process_name(std::process::id()).unwrap_or_else(|| std::process::id().to_string()));
        let failed = |source| RunError::Make { path: path.clone(), source };
        if path.as_os_str().len() > FOLDER_BYTES_MAX {
            return Err(RunError::TooLong { path });
        }
        fs::create_dir_all(&runs).map_err(failed)?;
        remove_leftovers(&runs);
        fs::create_dir_all(&path).map_err(failed)?;
        Ok(Self { path })
    }

    /// The folder that this process made before it replaced itself.
    #[must_use]
    pub fn adopt(path: PathBuf) -> Self {
        Self { path }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives up the folder: the process goes on under another program.
    #[must_use]
    pub fn hand_over(self) -> PathBuf {
        let path = self.path.clone();
        std::mem::forget(self);
        path
    }

    /// Copies all logs to `to`, for looking into a failure after the folder is gone.
    pub fn save_logs(&self, to: &Path) -> io::Result<()> {
        match fs::remove_dir_all(to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        copy_logs(&self.path, to)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            let path = self.path.display();
            tracing::warn!(%error, %path, "could not remove the run's folder; the next run tries it again");
        }
    }
}

fn copy_logs(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_logs(&entry.path(), &target)?;
        } else if entry.path().extension().is_some_and(|extension| extension == "log") {
            fs::create_dir_all(to)?;
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// `PID-STARTTIME`: a process id alone may come back for another process.
#[must_use]
pub fn process_name(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(format!("{pid}-{}", start_time(&stat)?))
}

/// Field 22 of proc(5)'s stat. The second field may hold anything, so count from its end.
fn start_time(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn remove_leftovers(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.split('-').next().and_then(|pid| pid.parse().ok()) else { continue };
        if process_name(pid).as_deref() == Some(&name) {
            continue;
        }
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!(%error, name, "could not remove what a dead run left; the next run tries it again");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_the_dead_go_and_those_of_the_living_stay() {
        let cache = tempfile::tempdir_in("/tmp").unwrap();
        let runs = cache.path().join("runs");
        let alive = runs.join(process_name(std::process::id()).unwrap());
        // The same process id with another start time is another, dead process.
        let dead = runs.join(format!("{}-1", std::process::id()));
        fs::create_dir_all(&alive).unwrap();
        fs::create_dir_all(dead.join("hosts")).unwrap();
        let folder = RunFolder::create(cache.path()).unwrap();
        assert!(alive.exists() && !dead.exists());
        let path = folder.path().to_owned();
        fs::create_dir_all(path.join("hosts/a")).unwrap();
        fs::write(path.join("hosts/a/serial.log"), "x").unwrap();
        fs::write(path.join("hosts/a/disk.raw"), "x").unwrap();
        folder.save_logs(&cache.path().join("saved")).unwrap();
        drop(folder);
        assert!(!path.exists());
        assert!(cache.path().join("saved/hosts/a/serial.log").exists());
        assert!(!cache.path().join("saved/hosts/a/disk.raw").exists());
    }

    #[test]
    fn the_start_time_is_found_though_the_name_is_odd() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(start_time(&format!("42 (a) b (c)) {rest}")), Some(4711));
        assert_eq!(start_time("42 (x) S"), None);
    }
}
