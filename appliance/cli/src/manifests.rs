//! Objects in files, as commands with `--filename` take them: from files, folders, the web and standard input.
//!
//! All is read before anything is done: a file that cannot be read stops the command while nothing has changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use firesteel_dial::{Dialer, Targets, WebClient};
use firesteel_facts::AddressBlock;
use firesteel_kube::yaml::{self, MANIFEST_BYTES_MAX};
use reqwest::Url;
use serde_json::Value;

use firesteel_appliance::text_file;

use super::usage::wrong_use;

/// The endings of files that are read from a folder; kubectl reads the same.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];
/// The most files of one command.
const FILES_MAX: usize = 10_000;
/// The most folders inside each other.
const FOLDER_DEPTH_MAX: usize = 32;
/// The time for one file from the web.
const FETCH_TIMEOUT: Duration = Duration::from_mins(2);
const STANDARD_INPUT: &str = "-";

/// Where a command takes its objects from.
#[derive(Clone, Debug, clap::Args)]
pub struct ManifestFlags {
    /// File with one or more objects, folder of such files, http(s) URL, or `-` for standard input, may be repeated
    ///
    /// A folder stands for its files that end in .yaml, .yml or .json, in the order of their names. A URL is fetched
    /// without a proxy.
    #[arg(long, short, required = true, value_name = "FILE")]
    pub filename: Vec<String>,
    /// Read the folders in a folder, too
    #[arg(long, short = 'R')]
    pub recursive: bool,
}

/// One object of a file.
#[derive(Clone, Debug)]
pub(crate) struct ManifestObject {
    /// The file's name, for messages.
    pub(crate) source: String,
    pub(crate) object: Value,
}

/// One file, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ManifestSource {
    StandardInput,
    File(PathBuf),
    Web(Url),
}

impl ManifestSource {
    fn title(&self) -> String {
        match self {
            Self::StandardInput => "standard input".to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Web(url) => firesteel_facts::shown_url(url.as_str()),
        }
    }

    async fn text(&self) -> anyhow::Result<String> {
        match self {
            Self::StandardInput => {
                text_file::read_from(std::io::stdin(), MANIFEST_BYTES_MAX).context("could not read standard input")
            }
            Self::File(path) => text_file::read(path, MANIFEST_BYTES_MAX),
            Self::Web(url) => {
                let fetched = tokio::time::timeout(FETCH_TIMEOUT, fetch(url)).await;
                let fetched = fetched.unwrap_or_else(|_| bail!("it took longer than {} s", FETCH_TIMEOUT.as_secs()));
                fetched.with_context(|| format!("could not fetch {}", self.title()))
            }
        }
    }
}

/// Reads all objects, in the order of the flags and files.
///
/// # Errors
/// When a file cannot be read, or there is no object. Nothing of the other files counts then.
pub(crate) async fn read(flags: &ManifestFlags) -> anyhow::Result<Vec<ManifestObject>> {
    let sources = sources(flags)?;
    let (mut manifests, mut faults, mut bytes) = (Vec::new(), Vec::new(), 0);
    for source in &sources {
        let found = async {
            let text = source.text().await?;
            bytes += text.len();
            ensure!(
                bytes <= MANIFEST_BYTES_MAX,
                "the files have more than {MANIFEST_BYTES_MAX} bytes together; name fewer of them at a time"
            );
            objects(&text).with_context(|| format!("could not read objects from {}", source.title()))
        };
        match found.await {
            Ok(objects) => {
                let manifest = |object| ManifestObject { source: source.title(), object };
                manifests.extend(objects.into_iter().map(manifest));
            }
            Err(fault) => faults.push(format!("{fault:#}")),
        }
    }
    match faults.as_slice() {
        [] if manifests.is_empty() => bail!("{} holds no object", flags.filename.join(", ")),
        [] => Ok(manifests),
        [one] => bail!("{one}; nothing was done"),
        several => bail!("nothing was done, since {} files are faulty:\n  {}", several.len(), several.join("\n  ")),
    }
}

/// Finds the files behind the flags.
fn sources(flags: &ManifestFlags) -> anyhow::Result<Vec<ManifestSource>> {
    let mut sources = Vec::new();
    for name in &flags.filename {
        if name == STANDARD_INPUT {
            sources.push(ManifestSource::StandardInput);
        } else if name.starts_with("http://") || name.starts_with("https://") {
            sources.push(ManifestSource::Web(address(name)?));
        } else if Path::new(name).is_dir() {
            let before = sources.len();
            collect(Path::new(name), flags.recursive, 0, &mut sources)?;
            if sources.len() == before {
                let hint = if flags.recursive { "" } else { "; --recursive reads the folders in it, too" };
                bail!("the folder {name} has no file that ends in .yaml, .yml or .json{hint}");
            }
        } else {
            sources.push(ManifestSource::File(PathBuf::from(name)));
        }
    }
    let is_input = |source: &&ManifestSource| **source == ManifestSource::StandardInput;
    if sources.iter().filter(is_input).count() > 1 {
        return Err(wrong_use(format!(
            "--filename {STANDARD_INPUT} is there twice, and standard input can be read once"
        )));
    }
    ensure!(sources.len() <= FILES_MAX, "these are more than {FILES_MAX} files; name fewer at a time");
    Ok(sources)
}

fn address(text: &str) -> anyhow::Result<Url> {
    ensure!(
        !firesteel_facts::has_user_information(text),
        "--filename {} names a user or a password, which other users of this machine can see; fetch the file with \
         another program and apply it with `--filename {STANDARD_INPUT}`",
        firesteel_facts::shown_url(text)
    );
    Url::parse(text).with_context(|| format!("--filename {} is no URL", firesteel_facts::shown_url(text)))
}

/// Finds the files of a folder. Links to folders are not followed: they could lead in a circle.
fn collect(folder: &Path, recursive: bool, depth: usize, sources: &mut Vec<ManifestSource>) -> anyhow::Result<()> {
    ensure!(depth < FOLDER_DEPTH_MAX, "{} is more than {FOLDER_DEPTH_MAX} folders deep", folder.display());
    let reading = || format!("could not read the folder {}", folder.display());
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder).with_context(reading)?.collect();
    let mut entries = entries.with_context(reading)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().with_context(reading)?.is_dir() {
            if recursive {
                collect(&path, recursive, depth + 1, sources)?;
            }
        } else if is_manifest(&path) && !path.is_dir() {
            ensure!(sources.len() < FILES_MAX, "{} has more than {FILES_MAX} files", folder.display());
            sources.push(ManifestSource::File(path));
        }
    }
    Ok(())
}

fn is_manifest(path: &Path) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| ENDINGS.contains(&ending))
}

/// Fetches a text. The user of the command names the address, and may name any that this machine reaches.
async fn fetch(url: &Url) -> anyhow::Result<String> {
    let everywhere = ["0.0.0.0/0", "::/0"].map(str::parse::<AddressBlock>);
    let targets = Targets::allowing(everywhere.into_iter().flatten());
    let web = WebClient::new(Dialer::new(targets)).context("could not prepare TLS")?;
    let mut answer = web.get(url, &http::HeaderMap::new(), None, MANIFEST_BYTES_MAX as u64).await?;
    ensure!(answer.status.is_success(), "the server answered {}", answer.status);
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    text_file::read_from(bytes.as_slice(), MANIFEST_BYTES_MAX)
}

/// Reads the objects of a text, those in lists one by one.
fn objects(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = yaml::read_all(text)?;
    let mut objects = Vec::new();
    for (index, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
        ensure!(document.is_object(), "document {} is no object: it has no fields", index + 1);
        flatten(document, &mut objects);
    }
    Ok(objects)
}

/// Takes a list apart, as `kubectl get --output yaml` prints it.
fn flatten(document: Value, objects: &mut Vec<Value>) {
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match document {
        Value::Object(mut fields) if is_list && fields.get("items").is_some_and(Value::is_array) => {
            if let Some(Value::Array(items)) = fields.remove("items") {
                items.into_iter().for_each(|item| flatten(item, objects));
            }
        }
        other => objects.push(other),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn flags(names: &[&str], recursive: bool) -> ManifestFlags {
        ManifestFlags { filename: names.iter().map(|&name| name.to_owned()).collect(), recursive }
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(place("c/d")).unwrap();
        for name in ["b.yaml", "a.json", "z.yml", "notes.txt", "c/c.yaml", "c/d/d.yaml"] {
            std::fs::write(place(name), "kind: A\n").unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), place("c/circle.yaml")).unwrap();
        let root = folder.path().to_str().unwrap();
        let named = |recursive| {
            let found = sources(&flags(&[root], recursive)).unwrap();
            found.iter().map(|source| source.title().replacen(root, "", 1)).collect::<Vec<_>>()
        };
        assert_eq!(named(false), ["/a.json", "/b.yaml", "/z.yml"]);
        assert_eq!(named(true), ["/a.json", "/b.yaml", "/c/c.yaml", "/c/d/d.yaml", "/z.yml"]);
        std::fs::create_dir(place("e")).unwrap();
        let empty = sources(&flags(&[place("e").to_str().unwrap()], false)).unwrap_err().to_string();
        assert!(empty.contains("ends in .yaml, .yml or .json; --recursive"), "{empty}");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let twice = sources(&flags(&["-", "-"], false)).unwrap_err().to_string();
        assert!(twice.contains("--filename - is there twice"), "{twice}");
        let login = sources(&flags(&["https://u:hunter2@h/x.yaml"], false)).unwrap_err().to_string();
        assert!(login.contains("--filename") && login.contains("password") && !login.contains("hunter2"), "{login}");
        assert!(sources(&flags(&["http://"], false)).is_err());
    }

    #[test]
    fn lists_are_taken_apart_and_empty_documents_left_out() {
        let text = "---\nkind: List\nitems: [{kind: A}, {kind: BList, items: [{kind: B}]}]\n---\n---\nkind: C\n";
        let kinds: Vec<Value> = objects(text).unwrap().iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        assert_eq!(objects("kind: PlayList\n").unwrap(), [json!({"kind": "PlayList"})]);
        let error = objects("kind: A\n---\n- kind: B\n").unwrap_err().to_string();
        assert!(error.contains("document 2 is no object"), "{error}");
        let error = objects("kind: A\nspec: {online: true, online: false}\n").unwrap_err().to_string();
        assert!(error.contains("duplicate mapping key: online"), "{error}");
    }

    #[tokio::test]
    async fn one_faulty_file_stops_all_and_each_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(place("a.yaml"), "kind: A\n").unwrap();
        std::fs::write(place("b.yaml"), "kind: [\n").unwrap();
        let read = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| place(name)).collect();
            async move { super::read(&ManifestFlags { filename: names, recursive: false }).await }
        };
        assert_eq!(read(&["a.yaml", "a.yaml"]).await.unwrap().len(), 2);
        let error = read(&["a.yaml", "b.yaml", "none.yaml"]).await.unwrap_err().to_string();
        assert!(
            error.contains("nothing was done") && error.contains("b.yaml") && error.contains("none.yaml"),
            "{error}"
        );
        std::fs::write(place("c.yaml"), "# nothing\n").unwrap();
        let error = read(&["c.yaml"]).await.unwrap_err().to_string();
        assert!(error.contains("c.yaml holds no object"), "{error}");
    }
}
