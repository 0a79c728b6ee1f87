//! What a bundle is made of while it is collected: each part is cleaned before it is written, and what cannot be had is
//! noted with the reason.

use std::collections::BTreeSet;
use std::time::Duration;

use firesteel_redaction::{Redactor, secret_types};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::archive::BundleArchive;
use super::listing::{BundleScope, OBJECTS_MAX, ObjectPages, ServedKind};
use crate::ApiClient;
use crate::client::{code_of, with_query};
use crate::table::clean;

/// The most bytes of one part that is a text: no log that the appliance keeps in memory is longer.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// The most hosts whose logs are fetched: each takes three requests.
const LOGGED_HOSTS_MAX: usize = 2_000;
const NOT_FOUND: u16 = 404;
const UNAVAILABLE: u16 = 503;
/// The longest reason that is listed.
const WHY_BYTES_MAX: usize = 500;

/// What is not in a bundle, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct MissingPart {
    pub(super) what: String,
    pub(super) why: String,
}

/// A host by its namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HostName {
    namespace: String,
    name: String,
}

/// Collects parts until the time is over.
pub(super) struct BundleCollection<'a> {
    pub(super) client: &'a ApiClient,
    pub(super) scope: BundleScope<'a>,
    pub(super) archive: BundleArchive,
    pub(super) redactor: Redactor,
    pub(super) missing: Vec<MissingPart>,
    /// Resources (`PLURAL.GROUP`) of which objects were asked for and answered.
    pub(super) collected: BTreeSet<String>,
    /// What the ClusterOperators name as theirs.
    pub(super) related: Vec<Value>,
    hosts: BTreeSet<HostName>,
    pub(super) time: BundleTime,
}

impl<'a> BundleCollection<'a> {
    pub(super) fn new(
        client: &'a ApiClient,
        scope: BundleScope<'a>,
        archive: BundleArchive,
        redactor: Redactor,
        time: BundleTime,
    ) -> Self {
        Self {
            client,
            scope,
            archive,
            redactor,
            missing: Vec::new(),
            collected: BTreeSet::new(),
            related: Vec::new(),
            hosts: BTreeSet::new(),
            time,
        }
    }

    /// Notes what is not in the bundle.
    pub(super) fn miss(&mut self, what: &str, why: &str) {
        let why = clean(&why[..why.floor_char_boundary(WHY_BYTES_MAX)]);
        self.missing.push(MissingPart { what: clean(what), why });
    }

    /// Collects all objects of a kind, a file for each page.
    ///
    /// # Errors
    /// When the archive cannot be written.
    pub(super) async fn objects(&mut self, kind: &ServedKind) -> anyhow::Result<()> {
        let resource = kind.resource();
        let scope = self.scope;
        let mut pages = ObjectPages::new(self.client, kind, scope);
        let pages_max = kind.pages_max();
        for number in 1..=pages_max + 1 {
            let page = match self.time.within(pages.next(scope)).await {
                Ok(Some(page)) if number <= pages_max => page,
                Ok(Some(_)) => {
                    self.miss(&resource, &format!("there are more than {OBJECTS_MAX} of them"));
                    break;
                }
                Ok(None) => break,
                Err(error) => {
                    self.miss(&resource, &format!("{error:#}"));
                    break;
                }
            };
            self.collected.insert(resource.clone());
            let name = format!("objects/{resource}-{number:03}.json");
            if !page.is_empty() && !self.page(&name, page)? {
                break;
            }
        }
        if let Some(why) = pages.only_namespace {
            self.miss(&resource, &why);
        }
        Ok(())
    }

    /// Cleans and adds a page of objects; says whether there was room for it.
    fn page(&mut self, name: &str, mut page: Vec<Value>) -> anyhow::Result<bool> {
        self.redactor.begin_part();
        for (index, object) in page.iter_mut().enumerate() {
            self.redactor.begin_object();
            self.take_note(object);
            secret_types::drop_field_sets(object);
            for place in secret_types::remove(object) {
                self.redactor.note_type(name, &format!("/items/{index}{place}"));
            }
            self.redactor.clean_value(name, &format!("/items/{index}"), object);
        }
        let shows = page.iter().any(|object| self.redactor.shows_in_value(object));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": page});
        self.add(name, &serde_json::to_vec_pretty(&list)?, shows)
    }

    /// Takes note of hosts, whose logs come later, and of what belongs to an operator.
    fn take_note(&mut self, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        if object["kind"] == "BareMetalHost" {
            self.hosts.insert(HostName { namespace: text("namespace"), name: text("name") });
        }
        if object["kind"] == "ClusterOperator" {
            self.related.extend(object["status"]["relatedObjects"].as_array().into_iter().flatten().cloned());
        }
    }

    /// Adds a text of several lines, if it is not empty.
    ///
    /// # Errors
    /// When the archive cannot be written.
    pub(super) fn text(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        // The newest lines of a log stand at its end.
        let start = text.ceil_char_boundary(text.len().saturating_sub(TEXT_BYTES_MAX));
        if start > 0 {
            self.miss(name, &format!("its first {start} bytes are left out"));
        }
        self.redactor.begin_part();
        let clean = self.redactor.clean_lines(name, &text[start..]);
        let shows = self.redactor.shows(&clean);
        self.add(name, clean.as_bytes(), shows).map(|_| ())
    }

    /// Adds a value of JSON.
    ///
    /// # Errors
    /// When the archive cannot be written.
    pub(super) fn value(&mut self, name: &str, mut value: Value) -> anyhow::Result<()> {
        self.redactor.begin_part();
        self.redactor.clean_value(name, "", &mut value);
        let shows = self.redactor.shows_in_value(&value);
        self.add(name, &serde_json::to_vec_pretty(&value)?, shows).map(|_| ())
    }

    /// Fetches a text, and adds it.
    ///
    /// # Errors
    /// When the archive cannot be written.
    pub(super) async fn fetch_text(&mut self, name: &str, path: &str) -> anyhow::Result<()> {
        match self.time.within(self.client.text(path)).await {
            Ok(text) => self.text(name, &text),
            Err(error) => {
                self.miss(name, &format!("{error:#}"));
                Ok(())
            }
        }
    }

    /// Fetches an answer in JSON, and adds it.
    ///
    /// # Errors
    /// When the archive cannot be written.
    pub(super) async fn fetch_value(&mut self, name: &str, path: &str) -> anyhow::Result<()> {
        match self.time.within(self.client.get(path)).await {
            Ok(value) => self.value(name, value),
            // An appliance that serves no machine says so: that is what it has to say.
            Err(error) if code_of(&error) == Some(UNAVAILABLE) => {
                self.value(name, json!({"code": UNAVAILABLE, "message": format!("{error:#}")}))
            }
            Err(error) => {
                self.miss(name, &format!("{error:#}"));
                Ok(())
            }
        }
    }

    /// Fetches whether the appliance is ready, and what is not if it is not.
    ///
    /// # Errors
    /// When the archive cannot be written.
    pub(super) async fn fetch_readiness(&mut self) -> anyhow::Result<()> {
        let name = "appliance/readyz.txt";
        match self.time.within(self.client.text_of_any_code("/readyz")).await {
            Ok(answer) => self.text(name, &format!("HTTP {}\n{}", answer.code, answer.text)),
            Err(error) => {
                self.miss(name, &format!("{error:#}"));
                Ok(())
            }
        }
    }

    /// Fetches the lines of each host's agent, of the kernel below it and of its console, as far as there are any.
    ///
    /// # Errors
    /// When the archive cannot be written.
    pub(super) async fn host_logs(&mut self, mut progress: impl FnMut(usize, usize)) -> anyhow::Result<()> {
        let hosts = std::mem::take(&mut self.hosts);
        let count = hosts.len().min(LOGGED_HOSTS_MAX);
        if hosts.len() > count {
            self.miss("logs of hosts", &format!("{} hosts have logs, and those of {count} are fetched", hosts.len()));
        }
        for (index, HostName { namespace, name }) in hosts.into_iter().take(count).enumerate() {
            progress(index, count);
            for source in [firesteel_control::AGENT, firesteel_control::KERNEL, firesteel_control::CONSOLE] {
                let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/log");
                let query = [("container", source.to_owned()), ("timestamps", "true".to_owned())];
                let file = format!("hosts/{namespace}/{name}/{source}.log");
                match self.time.within(self.client.text(&with_query(&path, &query))).await {
                    Ok(text) => self.text(&file, &text)?,
                    // The host went away meanwhile.
                    Err(error) if code_of(&error) == Some(NOT_FOUND) => break,
                    Err(error) => {
                        self.miss(&file, &format!("{error:#}"));
                        // A caller who may not read one of them may read none.
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a file that was cleaned, unless it still shows a value; says whether there was room for it.
    fn add(&mut self, name: &str, content: &[u8], shows: bool) -> anyhow::Result<bool> {
        if shows {
            self.miss(name, "it still showed a value of a Secret after it was cleaned");
            return Ok(true);
        }
        if !self.archive.has_room_for(content.len()) {
            let gib = super::archive::BUNDLE_BYTES_MAX >> 30;
            self.miss(name, &format!("the bundle has {gib} GiB already: make bundles of single namespaces"));
            return Ok(false);
        }
        self.archive.add(name, content)?;
        Ok(true)
    }
}

/// How long a bundle may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct BundleTime {
    ends_at: Instant,
    limit: Duration,
}

impl BundleTime {
    /// Begins now.
    pub(super) fn start(limit: Duration) -> Self {
        Self { ends_at: Instant::now() + limit, limit }
    }

    /// Waits for an answer, as long as there is time.
    ///
    /// # Errors
    /// When the answer is one, or the time is over.
    pub(super) async fn within<T>(self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        match timeout_at(self.ends_at, work).await {
            Ok(done) => done,
            Err(_) => {
                Err(anyhow::anyhow!("the time of {} s is over: give a longer one with --timeout", self.limit.as_secs()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_redaction::SecretSearch;

    use super::*;

    /// A page that still showed a value ended the list of its kind, and nothing named the pages behind it.
    #[test]
    fn a_page_that_still_shows_a_value_is_missing_alone() {
        let folder = tempfile::tempdir().unwrap();
        let archive = BundleArchive::create(&folder.path().join("a.tar.gz"), "bundle", 0).unwrap();
        let values = BTreeSet::from([b"hunter22".to_vec(), b"x(removed)".to_vec()]);
        let redactor = Redactor::new(SecretSearch::new(&values).unwrap()).unwrap();
        let client = ApiClient::without_tls("http://127.0.0.1:1");
        let time = BundleTime::start(Duration::from_secs(60));
        let scope = BundleScope::Everything { own: "default" };
        let mut collection = BundleCollection::new(&client, scope, archive, redactor, time);
        assert!(collection.page("objects/a-001.json", vec![json!({"a": "xhunter22"})]).unwrap(), "there was room");
        assert!(collection.page("objects/a-002.json", vec![json!({"a": "hunter22"})]).unwrap());
        let missing = [MissingPart {
            what: "objects/a-001.json".into(),
            why: "it still showed a value of a Secret after it was cleaned".into(),
        }];
        assert_eq!(collection.missing, missing);
        let names: Vec<&str> = collection.archive.files().iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["objects/a-002.json"]);
    }

    #[tokio::test]
    async fn no_answer_is_waited_for_when_the_time_is_over() {
        let time = BundleTime::start(Duration::ZERO);
        let error = time.within(std::future::pending::<anyhow::Result<()>>()).await.unwrap_err().to_string();
        assert_eq!(error, "the time of 0 s is over: give a longer one with --timeout");
    }
}
