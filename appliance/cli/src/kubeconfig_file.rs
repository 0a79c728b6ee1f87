//! Kubeconfig files: which of them counts, how several become one, and what of them a connection needs.
//!
//! | order | where | what of it is read |
//! |---|---|---|
//! | 1 | `--kubeconfig`, else `FIRESTEEL_KUBECONFIG` | this file |
//! | 2 | `FIRESTEEL_DATA` | `admin.kubeconfig` in this folder |
//! | 3 | `KUBECONFIG` | one file, or several with colons between them, which become one |
//! | 4 | the home folder | `.kube/config` |
//!
//! The first that is named counts, also if it cannot be read: another one may lead to another fleet.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_kube::yaml;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use firesteel_appliance::text_file::{self, TEXT_FILE_BYTES_MAX};

/// What a connection to an appliance needs.
pub(super) struct ApplianceAccess {
    pub(super) server: String,
    /// The CA, in PEM.
    pub(super) authority: Vec<u8>,
    /// The bearer token; empty if a certificate is used.
    pub(super) token: String,
    pub(super) certificate: Option<ClientCertificate>,
    /// The namespace of the context; empty if it names none.
    pub(super) namespace: String,
    /// The files that were read, for errors.
    pub(super) files: String,
}

/// A certificate and its key, in PEM.
pub(super) struct ClientCertificate {
    pub(super) chain: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// What names a kubeconfig.
#[derive(Clone, Debug, Default)]
struct KubeconfigSources {
    flag: Option<PathBuf>,
    data: Option<OsString>,
    kubeconfig: Option<OsString>,
    home: Option<OsString>,
}

/// The files that count.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KubeconfigFiles {
    paths: Vec<PathBuf>,
    /// What named them, for errors.
    named_by: &'static str,
}

impl KubeconfigSources {
    /// Chooses the files that count.
    fn files(self) -> anyhow::Result<KubeconfigFiles> {
        let is_set = |text: &OsString| !text.is_empty();
        let one = |path: PathBuf, named_by| KubeconfigFiles { paths: vec![path], named_by };
        if let Some(path) = self.flag {
            return Ok(one(path, "--kubeconfig or FIRESTEEL_KUBECONFIG"));
        }
        if let Some(data) = self.data.filter(is_set) {
            return Ok(one(PathBuf::from(data).join("admin.kubeconfig"), "FIRESTEEL_DATA"));
        }
        if let Some(list) = self.kubeconfig.filter(is_set) {
            let paths: Vec<PathBuf> = env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect();
            if !paths.is_empty() {
                return Ok(KubeconfigFiles { paths, named_by: "KUBECONFIG" });
            }
        }
        let usual = self.home.filter(is_set).map(|home| PathBuf::from(home).join(".kube/config"));
        usual.filter(|path| path.exists()).map(|path| one(path, "the home folder")).context(
            "where is the appliance? give --kubeconfig FILE, or set FIRESTEEL_KUBECONFIG or KUBECONFIG to it, or \
             FIRESTEEL_DATA to the appliance's folder; there is no ~/.kube/config either",
        )
    }
}

/// Finds the kubeconfig, and reads what a connection needs.
///
/// # Errors
/// When there is none, or it does not hold an address, a CA and a way to log in.
pub(super) fn read(flag: Option<&Path>) -> anyhow::Result<ApplianceAccess> {
    let sources = KubeconfigSources {
        flag: flag.map(Path::to_path_buf),
        data: env::var_os("FIRESTEEL_DATA"),
        kubeconfig: env::var_os("KUBECONFIG"),
        home: env::var_os("HOME"),
    };
    let files = sources.files()?;
    let shown = files.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":");
    let merged = read_files(&files)?;
    merged.access(&shown).with_context(|| format!("could not use the kubeconfig {shown}"))
}

/// Reads the files as one. A missing one of several is passed over, as kubectl does.
fn read_files(files: &KubeconfigFiles) -> anyhow::Result<Kubeconfig> {
    let is_list = files.paths.len() > 1;
    let mut all = Vec::new();
    for path in files.paths.iter().filter(|path| !is_list || path.exists()) {
        let text = text_file::read(path, TEXT_FILE_BYTES_MAX).map_err(|error| {
            anyhow!("{error:#}; {} names this kubeconfig, and --kubeconfig FILE would name another one", files.named_by)
        })?;
        let config: Kubeconfig = yaml::read(text.as_bytes())
            .with_context(|| format!("could not read {} as a kubeconfig", path.display()))?;
        all.push(config.in_folder(path.parent().unwrap_or(Path::new(""))));
    }
    if all.is_empty() {
        bail!("could not read a kubeconfig: none of the files that {} names is there", files.named_by);
    }
    Ok(merge(all))
}

/// Makes one kubeconfig of several: of each name the first entry counts, and the first context that one chooses.
fn merge(all: Vec<Kubeconfig>) -> Kubeconfig {
    let mut merged = Kubeconfig::default();
    for config in all {
        add(&mut merged.clusters, config.clusters);
        add(&mut merged.users, config.users);
        add(&mut merged.contexts, config.contexts);
        if merged.current_context.is_empty() {
            merged.current_context = config.current_context;
        }
    }
    merged
}

fn add<T: KubeconfigEntry>(known: &mut Vec<T>, more: Vec<T>) {
    let mut names: BTreeSet<String> = known.iter().map(|entry| entry.name().to_owned()).collect();
    known.extend(more.into_iter().filter(|entry| names.insert(entry.name().to_owned())));
}

/// An entry of a kubeconfig with a name.
trait KubeconfigEntry {
    fn name(&self) -> &str;
}

/// The part of a kubeconfig that is used, and the settings that cannot be followed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Kubeconfig {
    // kubectl writes `null` where there are none.
    #[serde(deserialize_with = "null_as_default")]
    clusters: Vec<NamedCluster>,
    #[serde(deserialize_with = "null_as_default")]
    users: Vec<NamedUser>,
    #[serde(deserialize_with = "null_as_default")]
    contexts: Vec<NamedContext>,
    #[serde(rename = "current-context")]
    current_context: String,
}

#[derive(Clone, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: String,
    certificate_authority_data: String,
    insecure_skip_tls_verify: bool,
    tls_server_name: String,
    proxy_url: String,
}

#[derive(Clone, Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: KubeconfigUser,
}

/// A token, or a certificate with its key.
#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct KubeconfigUser {
    token: String,
    #[serde(rename = "tokenFile")]
    token_file: String,
    client_certificate: String,
    client_certificate_data: String,
    client_key: String,
    client_key_data: String,
    username: String,
    exec: Value,
    auth_provider: Value,
}

#[derive(Clone, Deserialize)]
struct NamedContext {
    name: String,
    context: KubeconfigContext,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct KubeconfigContext {
    cluster: String,
    user: String,
    namespace: String,
}

impl KubeconfigEntry for NamedCluster {
    fn name(&self) -> &str {
        &self.name
    }
}

impl KubeconfigEntry for NamedUser {
    fn name(&self) -> &str {
        &self.name
    }
}

impl KubeconfigEntry for NamedContext {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Kubeconfig {
    /// Makes the paths of other files absolute: they are relative to the kubeconfig that names them.
    fn in_folder(mut self, folder: &Path) -> Self {
        let resolve = |path: &mut String| {
            if !path.is_empty() {
                *path = folder.join(&*path).to_string_lossy().into_owned();
            }
        };
        self.clusters.iter_mut().for_each(|named| resolve(&mut named.cluster.certificate_authority));
        for NamedUser { user, .. } in &mut self.users {
            [&mut user.token_file, &mut user.client_certificate, &mut user.client_key].into_iter().for_each(resolve);
        }
        self
    }

    /// Returns the parts of the current context. A file with one cluster and one user needs no context.
    fn chosen(&self) -> anyhow::Result<(&Cluster, &KubeconfigUser, &str)> {
        let current = self.current_context.as_str();
        if current.is_empty() {
            return match (self.clusters.as_slice(), self.users.as_slice()) {
                ([cluster], [user]) => Ok((&cluster.cluster, &user.user, "")),
                ([], _) => bail!("it names no cluster"),
                (_, []) => bail!("it names no user"),
                _ => bail!("it has no current-context: choose one with `kubectl config use-context NAME`"),
            };
        }
        let context = &of_name(&self.contexts, "context", current)?.context;
        let cluster = &of_name(&self.clusters, "cluster", &context.cluster)?.cluster;
        let user = &of_name(&self.users, "user", &context.user)?.user;
        Ok((cluster, user, &context.namespace))
    }

    fn access(&self, files: &str) -> anyhow::Result<ApplianceAccess> {
        let (cluster, user, namespace) = self.chosen()?;
        cluster.check()?;
        user.check()?;
        let authority =
            content("certificate-authority", &cluster.certificate_authority_data, &cluster.certificate_authority)?;
        let chain = content("client-certificate", &user.client_certificate_data, &user.client_certificate)?;
        let key = content("client-key", &user.client_key_data, &user.client_key)?;
        let certificate = match (chain, key) {
            (Some(chain), Some(key)) => Some(ClientCertificate { chain, key }),
            (None, None) => None,
            (Some(_), None) => bail!("its user has a client-certificate and no client-key"),
            (None, Some(_)) => bail!("its user has a client-key and no client-certificate"),
        };
        let token = if user.token_file.is_empty() {
            user.token.clone()
        } else {
            text_file::read(Path::new(&user.token_file), TEXT_FILE_BYTES_MAX)?.trim().to_owned()
        };
        Ok(ApplianceAccess {
            server: cluster.server.trim_end_matches('/').to_owned(),
            authority: authority.context("its cluster has no certificate-authority-data: no server can be trusted")?,
            token,
            certificate,
            namespace: namespace.to_owned(),
            files: files.to_owned(),
        })
    }
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn of_name<'a, T: KubeconfigEntry>(entries: &'a [T], what: &str, name: &str) -> anyhow::Result<&'a T> {
    entries.iter().find(|entry| entry.name() == name).with_context(|| {
        let names: Vec<&str> = entries.iter().map(KubeconfigEntry::name).collect();
        format!("it has no {what} {name:?}; it has: {}", names.join(", "))
    })
}

impl Cluster {
    fn check(&self) -> anyhow::Result<()> {
        let refused = [
            (self.insecure_skip_tls_verify, "insecure-skip-tls-verify"),
            (!self.tls_server_name.is_empty(), "tls-server-name"),
            (!self.proxy_url.is_empty(), "proxy-url"),
        ];
        refuse("cluster", &refused)?;
        anyhow::ensure!(!self.server.is_empty(), "its cluster has no server");
        Ok(())
    }
}

impl KubeconfigUser {
    fn check(&self) -> anyhow::Result<()> {
        let refused = [
            (!self.exec.is_null(), "exec"),
            (!self.auth_provider.is_null(), "auth-provider"),
            (!self.username.is_empty(), "username"),
        ];
        refuse("user", &refused)
    }
}

fn refuse(what: &str, refused: &[(bool, &str)]) -> anyhow::Result<()> {
    match refused.iter().find(|(is_set, _)| *is_set) {
        None => Ok(()),
        Some((_, field)) => bail!(
            "its {what} has {field}, which an appliance does not take; `firesteel kubeconfig` makes a kubeconfig for it"
        ),
    }
}

/// Reads what stands in the kubeconfig itself, in base64, or in a file that it names.
fn content(field: &str, data: &str, file: &str) -> anyhow::Result<Option<Vec<u8>>> {
    if !data.is_empty() {
        let bytes = STANDARD.decode(data.as_bytes()).with_context(|| format!("its {field}-data is not base64"))?;
        return Ok(Some(bytes));
    }
    if file.is_empty() {
        return Ok(None);
    }
    let text = text_file::read(Path::new(file), TEXT_FILE_BYTES_MAX);
    Ok(Some(text.with_context(|| format!("could not read its {field}"))?.into_bytes()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn sources(flag: &str, data: &str, kubeconfig: &str, home: &str) -> KubeconfigSources {
        let set = |text: &str| (!text.is_empty()).then(|| OsString::from(text));
        KubeconfigSources {
            flag: set(flag).map(PathBuf::from),
            data: set(data),
            kubeconfig: set(kubeconfig),
            home: set(home),
        }
    }

    fn chosen(sources: KubeconfigSources) -> Vec<String> {
        sources.files().unwrap().paths.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn the_first_source_that_is_named_counts() {
        let home = tempfile::tempdir().unwrap();
        let home_text = home.path().to_str().unwrap();
        assert_eq!(chosen(sources("f", "d", "k", home_text)), ["f"]);
        assert_eq!(chosen(sources("", "d", "k", home_text)), ["d/admin.kubeconfig"]);
        assert_eq!(chosen(sources("", "", "k:l:", home_text)), ["k", "l"]);
        let error = sources("", "", "", home_text).files().unwrap_err().to_string();
        assert!(error.contains("where is the appliance?") && error.contains("KUBECONFIG"), "{error}");
        std::fs::create_dir(home.path().join(".kube")).unwrap();
        std::fs::write(home.path().join(".kube/config"), "").unwrap();
        assert_eq!(chosen(sources("", "", ":", home_text)), [format!("{home_text}/.kube/config")]);
    }

    fn cluster(name: &str, server: &str) -> String {
        format!("clusters: [{{name: {name}, cluster: {{server: \"{server}\", certificate-authority-data: Q0E=}}}}]\n")
    }

    fn user(name: &str, fields: &str) -> String {
        format!("users: [{{name: {name}, user: {{{fields}}}}}]\n")
    }

    fn read_all(texts: &[String]) -> anyhow::Result<ApplianceAccess> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("cert.pem"), "CERT")?;
        std::fs::write(folder.path().join("key.pem"), "KEY")?;
        std::fs::write(folder.path().join("token"), "secret\n")?;
        let mut paths = vec![folder.path().join("missing"), folder.path().join("gone")];
        for (number, text) in texts.iter().enumerate() {
            paths.push(folder.path().join(number.to_string()));
            std::fs::write(&paths[number + 2], text)?;
        }
        read_files(&KubeconfigFiles { paths, named_by: "KUBECONFIG" })?.access("files")
    }

    #[test]
    fn several_files_become_one_as_kubectl_merges_them() {
        let context = "contexts: [{name: x, context: {cluster: c, user: u, namespace: rack1}}]\ncurrent-context: x\n";
        let found = read_all(&[
            cluster("c", "https://one/"),
            cluster("c", "https://two") + &user("u", "token: t") + context,
            "clusters: null\nusers: null\ncontexts: null\ncurrent-context: other\n".to_owned(),
        ])
        .unwrap();
        assert_eq!((found.server.as_str(), found.token.as_str()), ("https://one", "t"), "the first entry counts");
        assert_eq!((found.namespace.as_str(), found.authority.as_slice()), ("rack1", &b"CA"[..]));
        let lost = read_all(&[cluster("c", "s") + &user("u", "token: t") + "current-context: gone\n"]).err().unwrap();
        assert!(lost.to_string().contains("it has no context \"gone\""), "{lost}");
        let several = cluster("c", "s") + "users: [{name: a, user: {token: t}}, {name: b, user: {token: t}}]\n";
        let several = read_all(&[several]).err().unwrap().to_string();
        assert!(several.contains("current-context"), "{several}");
        assert!(read_all(&[]).err().unwrap().to_string().contains("none of the files"));
    }

    #[test]
    fn files_beside_the_kubeconfig_are_read_and_what_is_not_understood_is_refused() {
        let of = |fields: &str| read_all(&[cluster("c", "https://s") + &user("u", fields)]);
        let found = of("client-certificate: cert.pem, client-key: key.pem").unwrap();
        let certificate = found.certificate.unwrap();
        assert_eq!((certificate.chain.as_slice(), certificate.key.as_slice()), (&b"CERT"[..], &b"KEY"[..]));
        assert_eq!(of("tokenFile: token").unwrap().token, "secret");
        for (fields, why) in [
            ("client-certificate: cert.pem", "no client-key"),
            ("exec: {command: aws}", "has exec"),
            ("username: root", "has username"),
            ("client-key-data: \"?\"", "client-key-data is not base64"),
        ] {
            let error = format!("{:#}", of(fields).err().unwrap());
            assert!(error.contains(why), "{fields}: {error}");
        }
        let unsafe_cluster = "clusters: [{name: c, cluster: {server: s, insecure-skip-tls-verify: true}}]\n".to_owned();
        let error = read_all(&[unsafe_cluster + &user("u", "token: t")]).err().unwrap().to_string();
        assert!(error.contains("insecure-skip-tls-verify") && error.contains("firesteel kubeconfig"), "{error}");
    }
}
