//! `firesteel kubeconfig`: gives a user a role and a kubeconfig, or takes both away. It works through the API alone: a
//! grant gives the role, and the certificate is issued through it. The user's key is made here and is written to that
//! file only.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use firesteel_resources::access_grant::{AccessGrant, AccessGrantSpec, GrantSubject, USER};
use firesteel_resources::roles::Role;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

use super::confirm::{self, ConfirmOptions, ExpectedAnswer};
use super::{ApiClient, print_text, table::clean, usage::wrong_use};

const GRANTS: &str = "/apis/firesteel.dev/v1alpha1/accessgrants";
const SECONDS_PER_DAY: u32 = 24 * 3600;
/// The longest name of an object.
const NAME_BYTES_MAX: usize = 253;

#[derive(Debug, Args)]
pub struct KubeconfigOptions {
    /// Name of the user
    #[arg(long, value_name = "NAME", required_unless_present = "revoke")]
    user: Option<String>,
    /// Role of the user; an operator and a tenant need a --namespace
    #[arg(long, value_parser = roles(), required_unless_present = "revoke")]
    role: Option<String>,
    /// Group that the user is in, may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "revoke")]
    group: Vec<String>,
    /// Days for which the certificate is valid
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=365))]
    days: u32,
    /// File to write [default: NAME.kubeconfig]
    #[arg(long, value_name = "FILE", conflicts_with = "revoke")]
    file: Option<PathBuf>,
    #[arg(long, short, hide = true)]
    output: Option<String>,
    /// Revoke all grants of a user at once; open connections and watches of the user end
    #[arg(long, value_name = "NAME", conflicts_with_all = ["user", "role"])]
    revoke: Option<String>,
    /// Do not ask before access is revoked: go on at once, as scripts must
    #[arg(long, short, requires = "revoke")]
    yes: bool,
}

/// The roles, each with what it may do.
fn roles() -> PossibleValuesParser {
    let about = |word: &'static str| Role::of(word).map_or("", Role::about);
    PossibleValuesParser::new(Role::WORDS.map(|word| PossibleValue::new(word).help(about(word))))
}

/// # Errors
/// When the appliance refuses, or the file cannot be written.
pub(crate) async fn run(client: &ApiClient, namespace: Option<&str>, wanted: KubeconfigOptions) -> anyhow::Result<()> {
    if let Some(file) = &wanted.output {
        return Err(wrong_use(format!(
            "--output (-o) is the form of a result in all commands: name the file by `--file {file}`"
        )));
    }
    if let Some(user) = &wanted.revoke {
        return revoke(client, user, ConfirmOptions { yes: wanted.yes }).await;
    }
    let user = wanted.user.context("--user is needed")?;
    let role = wanted.role.context("--role is needed")?;
    let place = match (Role::of(&role).and_then(Role::needs_namespace), namespace) {
        (Some(true), None) => {
            return Err(wrong_use(format!("the role {role} holds in one namespace: give --namespace NAME")));
        }
        (Some(false), Some(_)) => {
            return Err(wrong_use(format!("the role {role} holds in all namespaces: leave --namespace out")));
        }
        (_, namespace) => namespace.unwrap_or_default(),
    };
    let subject = GrantSubject { kind: USER.to_owned(), name: user.clone(), namespace: String::new() };
    let spec = AccessGrantSpec { subject, role: role.clone(), namespace: place.to_owned() };
    let grant = ensure(client, &spec).await?;
    let key = KeyPair::generate().context("could not make a key")?;
    let mut request = CertificateParams::default();
    request.distinguished_name.push(DnType::CommonName, user.as_str());
    let request =
        request.serialize_request(&key).and_then(|request| request.pem()).context("could not make a request")?;
    let asked = json!({
        "apiVersion": "firesteel.dev/v1alpha1", "kind": "CertificateRequest",
        "spec": { "request": request, "groups": wanted.group, "expirationSeconds": wanted.days * SECONDS_PER_DAY },
    });
    let answer = client.create(&format!("{GRANTS}/{grant}/certificate"), &asked).await?;
    let certificate = answer["status"]["certificate"].as_str().context("the appliance sent no certificate")?;
    let path = wanted.file.unwrap_or_else(|| PathBuf::from(format!("{}.kubeconfig", file_name(&user))));
    write(&path, &kubeconfig(client, &user, place, certificate, &key.serialize_pem()))?;
    let expires = answer["status"]["expirationTimestamp"].as_str().unwrap_or_default();
    let shown = path.display().to_string();
    print_text(&format!(
        "{} gives {} the role {role} until {}; `firesteel kubeconfig --revoke {}` ends that\n",
        clean(&shown),
        clean(&user),
        clean(expires),
        clean(&user)
    ));
    Ok(())
}

/// Returns the name of a grant with this spec, and makes one if there is none.
async fn ensure(client: &ApiClient, spec: &AccessGrantSpec) -> anyhow::Result<String> {
    let name = object_name(spec);
    if let Some(found) = client.get_if_there(&format!("{GRANTS}/{name}")).await? {
        let found: AccessGrant = serde_json::from_value(found).context("could not read the grant")?;
        anyhow::ensure!(
            found.spec == *spec && !found.metadata.is_deleting(),
            "AccessGrant {name} exists and grants something else: look at it, or delete it first"
        );
        return Ok(name);
    }
    let grant = json!({
        "apiVersion": "firesteel.dev/v1alpha1", "kind": "AccessGrant", "metadata": { "name": name }, "spec": spec,
    });
    client.create(GRANTS, &grant).await?;
    Ok(name)
}

async fn revoke(client: &ApiClient, user: &str, confirm: ConfirmOptions) -> anyhow::Result<()> {
    confirm::check_terminal("kubeconfig --revoke", confirm)?;
    let list = client.get(GRANTS).await?;
    let mut names = Vec::new();
    for grant in list["items"].as_array().into_iter().flatten() {
        let subject = &grant["spec"]["subject"];
        if subject["kind"] == USER && subject["name"] == user {
            names.extend(grant["metadata"]["name"].as_str());
        }
    }
    if names.is_empty() {
        bail!("no grant names the user {user}; `firesteel get accessgrants` shows all");
    }
    let text = format!(
        "{} loses all access at once, and open connections end. These grants are deleted: {}\n",
        clean(user),
        clean(&names.join(", "))
    );
    confirm::ask("kubeconfig --revoke", &text, ExpectedAnswer::Name(user), confirm)?;
    for name in &names {
        client.delete(&format!("{GRANTS}/{name}")).await?;
    }
    print_text(&format!("{} has no access any more ({} deleted)\n", clean(user), clean(&names.join(", "))));
    Ok(())
}

/// Makes the name `USER-ROLE-NAMESPACE`, without characters that a name may not have.
fn object_name(spec: &AccessGrantSpec) -> String {
    let mut parts = vec![spec.subject.name.as_str(), &spec.role];
    parts.extend(Some(spec.namespace.as_str()).filter(|namespace| !namespace.is_empty()));
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' };
    let name: String = parts.join("-").to_ascii_lowercase().chars().map(plain).take(NAME_BYTES_MAX).collect();
    let name = name.trim_matches(['-', '.']).replace(".-", "--").replace("-.", "--");
    name.replace("..", "--")
}

/// Makes a file name from a user's name, without what leads out of a folder.
fn file_name(user: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "-_@".contains(letter) { letter } else { '-' };
    user.chars().map(plain).collect()
}

fn kubeconfig(client: &ApiClient, user: &str, namespace: &str, certificate: &str, key: &str) -> Value {
    let mut context = json!({ "cluster": "firesteel", "user": user });
    if !namespace.is_empty() {
        context["namespace"] = json!(namespace);
    }
    json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{ "name": "firesteel", "cluster": {
            "server": client.server(), "certificate-authority-data": client.authority(),
        }}],
        "users": [{ "name": user, "user": {
            "client-certificate-data": STANDARD.encode(certificate), "client-key-data": STANDARD.encode(key),
        }}],
        "contexts": [{ "name": "firesteel", "context": context }],
        "current-context": "firesteel",
    })
}

/// Writes the file whole or not at all; only its owner may read it, from the first byte.
fn write(path: &Path, config: &Value) -> anyhow::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let save = || -> std::io::Result<()> {
        // An earlier file would keep its mode.
        drop(fs::remove_file(&temporary));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(serde_json::to_string_pretty(config)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    save().with_context(|| format!("could not write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_named_after_what_it_says() {
        let named = |user: &str, role: &str, namespace: &str| {
            let subject = GrantSubject { kind: USER.into(), name: user.into(), namespace: String::new() };
            object_name(&AccessGrantSpec { subject, role: role.into(), namespace: namespace.into() })
        };
        assert_eq!(named("ann", "operator", "rack1"), "ann-operator-rack1");
        assert_eq!(named("Ann.@example.com", "viewer", ""), "ann--example.com-viewer");
        assert_eq!(named("_x", "viewer", ""), "x-viewer");
        assert_eq!(file_name("../ann@x"), "---ann@x");
    }
}
