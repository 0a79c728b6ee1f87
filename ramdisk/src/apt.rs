//! Fetches Debian packages with the machine's own `apt-get`, from the mirrors that its own sources
//! name, without installing them and without touching the system's package lists.
//!
//! Debian's lists are signed and name each package's SHA-256, which `apt-get` checks; the state is a
//! folder in the cache, so any user may run it, and any suite may be asked for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::digest::sha256_hex;

/// Lists older than this are fetched again; point releases and security updates come at this pace.
const LISTS_AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Names that Debian's suites go by; other repositories of a machine use names of their own.
const DEBIAN_SUITES: [&str; 8] = ["bookworm", "trixie", "forky", "sid", "stable", "testing", "unstable", "oldstable"];
const DEBIAN_KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What went wrong while fetching packages.
#[derive(Debug, thiserror::Error)]
pub enum AptError {
    #[error("running {program} (is this a Debian machine?)")]
    Run {
        program: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{command} failed:\n{output}")]
    Failed { command: String, output: String },
    #[error("the package sources of this machine name no Debian mirror; add one to /etc/apt/sources.list")]
    NoMirror,
    #[error("preparing {path}")]
    Prepare {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("apt knows no file for the package {package} in {suite}")]
    Unknown { package: String, suite: String },
    #[error("the package file {path} is not what the signed list says")]
    Digest { path: PathBuf },
}

/// Packages of one suite and architecture.
#[derive(Debug)]
pub struct Apt {
    folder: PathBuf,
    packages: PathBuf,
    suite: String,
    architecture: String,
    sources: String,
}

impl Apt {
    /// Packages of `suite` (such as `bookworm`), kept below the folder `cache`.
    pub fn new(cache: &Path, suite: &str, architecture: &str) -> Result<Self, AptError> {
        let sources = sources(suite)?;
        // Another list of sources is another state: its lists must not be taken for ours.
        let name = format!("{suite}-{architecture}-{}", &sha256_hex(sources.as_bytes())[..8]);
        let apt = Self {
            folder: cache.join("apt").join(name),
            packages: cache.join("packages"),
            suite: suite.to_owned(),
            architecture: architecture.to_owned(),
            sources,
        };
        for folder in ["lists/partial", "archives/partial"] {
            create_folder(&apt.folder.join(folder))?;
        }
        create_folder(&apt.packages)?;
        write(&apt.folder.join("sources.list"), &apt.sources)?;
        write(&apt.folder.join("status"), "")?;
        Ok(apt)
    }

    /// The lines of a `sources.list` that name the mirrors used.
    pub fn sources(&self) -> &str {
        &self.sources
    }

    /// Fetches the package lists where they are missing or old. With old lists and no network it goes
    /// on with the old ones.
    pub fn update(&self) -> Result<(), AptError> {
        let stamp = self.folder.join("updated");
        let age = fs::metadata(&stamp).and_then(|meta| meta.modified()).ok();
        if age.is_some_and(|at| SystemTime::now().duration_since(at).unwrap_or_default() < LISTS_AGE_MAX) {
            return Ok(());
        }
        match self.apt("apt-get", &["update", "--error-on=any"]) {
            Ok(_) => write(&stamp, ""),
            Err(AptError::Failed { .. }) if age.is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The package that a metapackage (such as `linux-image-amd64`) stands for.
    pub fn dependency(&self, metapackage: &str, prefix: &str) -> Result<String, AptError> {
        self.update()?;
        self.apt("apt-cache", &["depends", "--important", metapackage])?
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .find(|name| name.starts_with(prefix))
            .map(str::to_owned)
            .ok_or_else(|| AptError::Unknown { package: metapackage.to_owned(), suite: self.suite.clone() })
    }

    /// The package's file, fetched unless the cache has it.
    pub fn download(&self, package: &str) -> Result<PathBuf, AptError> {
        self.update()?;
        let answer = self.apt("apt-get", &["--print-uris", "download", package])?;
        let unknown = || AptError::Unknown { package: package.to_owned(), suite: self.suite.clone() };
        let (file, sha256) = answer.lines().find_map(parse_uri_line).ok_or_else(unknown)?;
        let path = self.packages.join(file);
        if is_intact(&path, sha256) {
            return Ok(path);
        }
        // In a folder of its own, and moved when whole: others may be fetching the same.
        let folder = tempfile::tempdir_in(&self.packages)
            .map_err(|source| AptError::Prepare { path: self.packages.clone(), source })?;
        self.apt_in("apt-get", &["--quiet", "download", package], folder.path())?;
        let fetched = folder.path().join(file);
        if !is_intact(&fetched, sha256) {
            return Err(AptError::Digest { path: fetched });
        }
        fs::rename(&fetched, &path).map_err(|source| AptError::Prepare { path: path.clone(), source })?;
        Ok(path)
    }

    fn apt(&self, program: &'static str, arguments: &[&str]) -> Result<String, AptError> {
        self.apt_in(program, arguments, &self.folder)
    }

    fn apt_in(&self, program: &'static str, arguments: &[&str], folder: &Path) -> Result<String, AptError> {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let options = [
            format!("Dir::Etc::SourceList={}", at("sources.list")),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            "Dir::Etc::Preferences=/dev/null".to_owned(),
            "Dir::Etc::PreferencesParts=/dev/null".to_owned(),
            format!("Dir::State={}", at("")),
            format!("Dir::State::Lists={}", at("lists")),
            format!("Dir::State::Status={}", at("status")),
            format!("Dir::Cache={}", at("")),
            format!("Dir::Cache::Archives={}", at("archives")),
            format!("APT::Architecture={}", self.architecture),
            format!("APT::Architectures={}", self.architecture),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=3".to_owned(),
            // As root apt would drop to a user that may not write into the cache.
            "APT::Sandbox::User=root".to_owned(),
        ];
        let mut command = Command::new(program);
        command.current_dir(folder).env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
        for option in &options {
            command.arg("-o").arg(option);
        }
        let output = command.args(arguments).output().map_err(|source| AptError::Run { program, source })?;
        if !output.status.success() {
            return Err(AptError::Failed {
                command: format!("{program} {}", arguments.join(" ")),
                output: String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
            });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Lines for a `sources.list` with `suite` and its updates, on the mirrors of the machine's own sources.
fn sources(suite: &str) -> Result<String, AptError> {
    let program = "apt-get";
    let output = Command::new(program)
        .args(["indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"])
        .env("LC_ALL", "C")
        .output()
        .map_err(|source| AptError::Run { program, source })?;
    let keyring = Path::new(DEBIAN_KEYRING).exists().then_some(DEBIAN_KEYRING);
    sources_from(&String::from_utf8_lossy(&output.stdout), suite, keyring).ok_or(AptError::NoMirror)
}

fn sources_from(targets: &str, suite: &str, keyring: Option<&str>) -> Option<String> {
    let mirror = |accept: &dyn Fn(&str) -> bool| {
        targets.lines().filter_map(|line| line.split_once(' ')).find(|(_, release)| accept(release)).map(|(uri, _)| uri)
    };
    let main = mirror(&|release| DEBIAN_SUITES.contains(&release))?;
    let security = mirror(&|release| release.strip_suffix("-security").is_some_and(|of| DEBIAN_SUITES.contains(&of)));
    let option = keyring.map(|path| format!("[signed-by={path}] ")).unwrap_or_default();
    let mut lines = format!("deb {option}{main} {suite} main\n");
    // Backports and unstable have no updates of their own.
    if !suite.contains('-') && !["sid", "unstable"].contains(&suite) {
        lines.push_str(&format!("deb {option}{main} {suite}-updates main\n"));
        if let Some(security) = security {
            lines.push_str(&format!("deb {option}{security} {suite}-security main\n"));
        }
    }
    Some(lines)
}

/// Reads a line of the form `'URI' FILE BYTES SHA256:DIGEST`.
fn parse_uri_line(line: &str) -> Option<(&str, &str)> {
    let mut words = line.strip_prefix('\'')?.split_whitespace().skip(1);
    let file = words.next()?;
    let sha256 = words.find_map(|word| word.strip_prefix("SHA256:"))?;
    let is_plain = !file.contains('/') && !file.starts_with('.');
    is_plain.then_some((file, sha256))
}

fn is_intact(path: &Path, sha256: &str) -> bool {
    fs::read(path).is_ok_and(|bytes| sha256_hex(&bytes) == sha256)
}

fn create_folder(path: &Path) -> Result<(), AptError> {
    fs::create_dir_all(path).map_err(|source| AptError::Prepare { path: path.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), AptError> {
    fs::write(path, text).map_err(|source| AptError::Prepare { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_those_of_the_machine() {
        let targets = "http://tools.example/apt/ cloud-sdk-bookworm\nhttp://mirror.example/debian/ trixie\n\
                       http://mirror.example/debian/ trixie-updates\nhttp://sec.example/s/ trixie-security\n";
        assert_eq!(
            sources_from(targets, "bookworm", Some("/k.gpg")).as_deref(),
            Some(
                "deb [signed-by=/k.gpg] http://mirror.example/debian/ bookworm main\n\
                 deb [signed-by=/k.gpg] http://mirror.example/debian/ bookworm-updates main\n\
                 deb [signed-by=/k.gpg] http://sec.example/s/ bookworm-security main\n"
            )
        );
        assert_eq!(
            sources_from(targets, "bookworm-backports", None).as_deref(),
            Some("deb http://mirror.example/debian/ bookworm-backports main\n")
        );
        assert_eq!(sources_from("http://tools.example/apt/ nodistro\n", "bookworm", None), None);
    }

    #[test]
    fn uri_lines_give_file_and_digest() {
        let line = "'http://m.example/p/k_6.1_amd64.deb' k_6.1_amd64.deb 70550672 SHA256:abcd";
        assert_eq!(parse_uri_line(line), Some(("k_6.1_amd64.deb", "abcd")));
        assert_eq!(parse_uri_line("Reading package lists..."), None);
        assert_eq!(parse_uri_line("'http://m.example/x' ../x 1 SHA256:ab"), None);
    }
}
