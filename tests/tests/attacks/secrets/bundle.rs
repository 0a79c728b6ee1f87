//! A reader of a support bundle, which goes to others by its nature: of an appliance that is in use, with secrets in every
//! Secret, URL, header and path of a log, none is in it in any encoding.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_tests::canary::{MARK, PLAIN_MARK, canary, files_under, forms, plain_forms, planted, shown_in};
use firesteel_tests::disk_image;
use firesteel_tests::field::{Field, discover, mac, with_field_and};
use firesteel_tests::hostile::Hostile;
use firesteel_tests::network::Dhcp;
use flate2::read::GzDecoder;
use reqwest::Method;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};

use super::given::{Admin, give_configs, give_secrets, give_urls, gzip};
use super::{CONFIG_MAPS, PROGRAM, WANTS};
use crate::{CLASS, host_agent::HostAgent, judge};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Secrets that this run made, by where they are planted.
#[derive(Default)]
struct RandomSecrets(BTreeMap<&'static str, String>);

impl RandomSecrets {
    /// Makes one that is nowhere else.
    fn make(&mut self, place: &'static str) -> String {
        let mut bytes = [0; 14];
        SystemRandom::new().fill(&mut bytes).unwrap();
        let secret = format!("Zq{}", hex::encode(bytes));
        assert!(self.0.insert(place, secret.clone()).is_none(), "{place} is named twice");
        secret
    }
}

/// A value in the encodings that programs write.
fn encoded(value: &str) -> Vec<String> {
    let quoted = json!(value).to_string();
    let twice = json!(quoted).to_string();
    vec![
        value.to_owned(),
        twice,
        value.bytes().map(|byte| format!("%{byte:02x}")).collect(),
        hex::encode(value),
        STANDARD.encode(value),
        STANDARD.encode(STANDARD.encode(value)),
        STANDARD.encode(format!("a longer text with {value} in it")),
        STANDARD.encode(gzip(value)),
        format!("{value:?}"),
    ]
}

/// A value in spellings that hide it from a search which reads a text as it is: behind a name, cut, over several lines.
fn misspelled(value: &str) -> Vec<String> {
    let wrapped = STANDARD.encode(format!("{}{value}{}", "x".repeat(52), "y".repeat(40)));
    let lines: Vec<&str> = wrapped.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
    vec![
        format!("bmc password={value} refused"),
        format!("at redfish://root:{value}@10.77.0.9"),
        format!("source data:,{value}"),
        format!("Cookie: SESSION={value}"),
        format!("userdata={}", STANDARD.encode(gzip(value))),
        format!("contents={}", STANDARD.encode(value)),
        json!({"name": "X-Auth-Token", "value": value}).to_string(),
        json!({"headers": {"Cookie": value}}).to_string(),
        lines.join("\\n"),
    ]
}

/// Texts that hold a secret by their form: no Secret has it.
fn shown_by_form(random: &mut RandomSecrets, source: PlantedSource) -> Vec<String> {
    let [
        login,
        query,
        bearer,
        header,
        key,
        hash,
        field,
        option,
        token,
        pair,
        list,
        argument,
        encoded_key,
        encoded_field,
    ] = source.places();
    let key = random.make(key);
    vec![
        format!("fetching redfish://root:{}@10.77.0.9/redfish/v1", random.make(login)),
        format!("GET https://images.example/a.raw?signature={} 404", random.make(query)),
        format!("sent Authorization: Bearer {} to it", random.make(bearer)),
        format!("sent X-Auth-Token: {} to it", random.make(header)),
        format!("-----BEGIN PRIVATE KEY-----\\nMIGH{key}\\n-----END PRIVATE KEY-----\\n"),
        format!("-----BEGIN RSA PRIVATE KEY-----\\nMIGH{key}"),
        format!("core:$6$rounds=4096$salt$x{}:19000", random.make(hash)),
        format!("bmcPassword: \"{}\"", random.make(field)),
        format!("--pull-token={} --verbose", random.make(option)),
        format!("got eyJhbGciOiJSUzI1NiJ9.eyJ{}.c2lnbmF0dXJl", random.make(token)),
        format!("{{\"X-Auth-Token\":[\"{}\"]}}", random.make(pair)),
        format!("{{\"tokens\":[\"{}\"]}}", random.make(list)),
        format!("ran ipmitool -U root --password {} power", random.make(argument)),
        format!("contents={}", STANDARD.encode(pem(&random.make(encoded_key)))),
        format!("note={}", STANDARD.encode(json!({"password": random.make(encoded_field)}).to_string())),
    ]
}

/// A private key as a file has it.
fn pem(key: &str) -> String {
    format!("-----BEGIN PRIVATE KEY-----\nMIGH{key}\n-----END PRIVATE KEY-----\n")
}

/// Where texts with secrets are planted.
#[derive(Clone, Copy)]
enum PlantedSource {
    Event,
    AgentLog,
}

impl PlantedSource {
    /// Names of the secrets that are shown by their form there.
    fn places(self) -> [&'static str; 14] {
        match self {
            Self::Event => [
                "event login",
                "event query",
                "event bearer",
                "event header",
                "event key",
                "event hash",
                "event field",
                "event option",
                "event token",
                "event pair",
                "event list",
                "event argument",
                "event encoded key",
                "event encoded field",
            ],
            Self::AgentLog => [
                "log login",
                "log query",
                "log bearer",
                "log header",
                "log key",
                "log hash",
                "log field",
                "log option",
                "log token",
                "log pair",
                "log list",
                "log argument",
                "log encoded key",
                "log encoded field",
            ],
        }
    }
}

/// Secrets that this run made in Secrets, and in what is no Secret.
fn plant(admin: &Admin<'_>, random: &mut RandomSecrets) -> Vec<String> {
    // Signs at which a form of a secret ends, and which programs escape.
    let signs = format!("ab,{};'%41\"cd", random.make("signs"));
    let known = [random.make("a Secret"), random.make("user data"), canary("bundle"), signs];
    let cloud = format!("#cloud-config\nusers:\n- name: core\n  passwd: {}\n", known[1]);
    for (name, fields) in [
        ("random", json!({"stringData": {"password": known[0]}})),
        ("random-user-data", json!({"stringData": {"userData": cloud}})),
        ("canary", json!({"stringData": {"password": known[2]}})),
        ("signs", json!({"stringData": {"password": known[3]}})),
    ] {
        let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        admin.does(Method::POST, SECRETS, &object);
    }
    let spelled = known.iter().flat_map(|value| encoded(value).into_iter().chain(misspelled(value)));
    let texts = spelled.chain(shown_by_form(random, PlantedSource::Event));
    for (number, text) in texts.enumerate() {
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("planted.{number}")}, "reason": "Planted",
            "message": format!("it shows <{text}>"), "lastTimestamp": jiff::Timestamp::now().to_string(),
            "involvedObject": {"kind": "BareMetalHost", "namespace": "default", "name": "victim"},
        });
        admin.does(Method::POST, EVENTS, &event);
    }
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "planted"},
        "data": {"kubeconfig": format!("users: [{{token: {}}}]", random.make("a ConfigMap")), "word": random.make("a word")},
    });
    admin.does(Method::POST, CONFIG_MAPS, &map);
    known.to_vec()
}

/// A host that is installed from a URL with a query, by an agent whose log shows secrets.
fn install(field: &Field, hostile: &mut Hostile, random: &mut RandomSecrets, known: &[String]) {
    let mut image = disk_image::served();
    image["url"] = format!("{}?signature={}", image["url"].as_str().unwrap(), random.make("the image's URL")).into();
    let annotation = format!("see https://{}@wiki.example/x", random.make("an annotation"));
    field.apply(&json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "victim", "annotations": {"example.org/note": annotation}},
        "spec": {
            "online": true, "bootMACAddress": mac(1).to_string(), "image": image,
            "userData": {"name": "user-data", "namespace": "default"},
        },
    }));
    field.until(&["describe", "host", "victim"], |page| page.contains("waiting for the host to boot"));
    let leased = field.lease(&discover(1, CLASS, &[7]));
    let script = hostile.script(leased, &mac(1).to_string()).body;
    let mut agent = HostAgent::of(field, 1);
    agent.boot(field, &script);
    agent.begin_write(field);
    let spelled = known.iter().flat_map(|value| encoded(value).into_iter().chain(misspelled(value)));
    let lines = spelled.chain(shown_by_form(random, PlantedSource::AgentLog));
    let lines: Vec<String> = lines.map(|text| format!("it shows <{text}>")).collect();
    agent.logs(field, &lines);
    agent.end_write(field);
    field.until(&["describe", "host", "victim"], |page| page.contains("ProvisioningComplete"));
    // A stranger asks with a secret in its path; the audit log names paths that are refused.
    let (status, _) = field.get(leased, &format!("/boot.ipxe?mac={}", known[0]));
    assert!(status >= 400, "{status}");
}

/// Unpacks a bundle; returns the folder with its files.
fn unpack(bundle: &Path, into: &Path) -> PathBuf {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(bundle).unwrap()));
    let mut root = None;
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().into_owned();
        root = root.or_else(|| name.components().next().map(|first| into.join(first)));
        let file = into.join(&name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::io::copy(&mut entry, &mut File::create(file).unwrap()).unwrap();
    }
    root.unwrap()
}

fn json_of(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap()
}

#[test]
fn no_secret_is_in_a_support_bundle_in_any_encoding() {
    with_field_and(PROGRAM, Dhcp::Managed, &["--log", "debug"], |field| {
        let mut hostile = Hostile::start(field, env!("CARGO_BIN_EXE_firesteel-hostile"));
        let aside = tempfile::tempdir().unwrap();
        let (admin, mut random) = (Admin::of(field), RandomSecrets::default());
        give_secrets(&admin);
        give_configs(&admin);
        give_urls(&admin);
        let known = plant(&admin, &mut random);
        let count = admin.given.get() + random.0.len();
        drop(admin);
        install(field, &mut hostile, &mut random, &known);
        assert!(count >= 30, "{count} secrets are not 30");
        println!("{count} secrets are planted, {} of them made in this run", random.0.len());

        let bundle = aside.path().join("bundle.tar.gz");
        let printed = field.firesteel(&["support-bundle", "--file", bundle.to_str().unwrap()]);
        assert!(printed.contains("secrets removed"), "{printed}");
        assert_eq!(fs::metadata(&bundle).unwrap().permissions().mode() & 0o777, 0o600);
        let folder = unpack(&bundle, aside.path());
        has_what_explains(&folder);

        let plain = random.0.values().flat_map(|secret| plain_forms(secret));
        let wanted: Vec<_> = plain_forms(PLAIN_MARK).into_iter().chain(forms()).chain(plain).collect();
        // The search finds what is there: the same texts as the appliance shows them.
        let events = field.firesteel(&["get", "events", "-o", "json"]);
        for secret in [&random.0["event login"], &random.0["event token"], &random.0["a Secret"]] {
            assert_ne!(shown_in("events", events.as_bytes(), &plain_forms(secret)), [""; 0], "{secret}");
        }
        assert!(events.contains(&MARK[..4]) && !planted("x").is_empty());
        let log = field.firesteel(&["logs", "victim"]);
        assert!(log.contains(&random.0["log login"]), "{log}");

        let files = files_under(aside.path());
        let found = files
            .iter()
            .flat_map(|file| shown_in(&file.display().to_string(), &fs::read(file).unwrap(), &wanted).into_iter());
        let found: Vec<String> = found.collect();
        let got = if found.is_empty() { "nothing".to_owned() } else { found.join("\n") };
        judge("a support bundle", WANTS, "nothing", &got);
    });
}

/// What a reader of the bundle is to find in it.
fn has_what_explains(folder: &Path) {
    let manifest = json_of(folder, "manifest.json");
    assert_eq!((&manifest["isComplete"], &manifest["missing"]), (&json!(true), &json!([])), "{manifest}");
    let related = manifest["relatedObjects"].as_array().unwrap();
    assert!(!related.is_empty() && related.iter().all(|object| object["isCollected"] == true), "{manifest}");
    for file in manifest["files"].as_array().unwrap() {
        let name = file["name"].as_str().unwrap();
        assert_eq!(fs::metadata(folder.join(name)).unwrap().len(), file["bytes"].as_u64().unwrap(), "{name}");
    }
    for name in [
        "objects/baremetalhosts.metal3.io-001.json",
        "objects/hostjournals.firesteel.dev-001.json",
        "objects/hardwaredata.metal3.io-001.json",
        "objects/provisionings.metal3.io-001.json",
        "objects/clusteroperators.config.openshift.io-001.json",
        "objects/events-001.json",
        "objects/secrets-001.json",
        "hosts/default/victim/agent.log",
        "appliance/settings.toml",
        "appliance/log.txt",
        "appliance/metrics.txt",
        "appliance/version.json",
        "appliance/readyz.txt",
        "appliance/audit.jsonl",
    ] {
        assert!(fs::metadata(folder.join(name)).is_ok_and(|metadata| metadata.len() > 5), "{name} is not there");
    }
    let journals = json_of(folder, "objects/hostjournals.firesteel.dev-001.json");
    let timeline = journals["items"][0]["status"]["timeline"].to_string();
    assert!(timeline.contains("ProvisioningComplete") && timeline.contains("agent_hello"), "{timeline}");
    let secrets = json_of(folder, "objects/secrets-001.json");
    let bmc = secrets["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "bmc").unwrap();
    assert_eq!(bmc["data"]["password"], "(removed)", "{bmc}");
    let log = fs::read_to_string(folder.join("appliance/log.txt")).unwrap();
    assert!(log.contains("Firesteel serves"), "{log}");
    let redactions = json_of(folder, "redactions.json");
    let listed = redactions["redactions"].as_array().unwrap();
    let has = |file: &str, what: &str| {
        listed
            .iter()
            .any(|row| row["file"].as_str().unwrap().starts_with(file) && row["what"].as_str().unwrap().contains(what))
    };
    for (file, what) in [
        ("objects/secrets", "content that the type of its object makes secret"),
        ("objects/machineconfigs", "content that the type of its object makes secret"),
        ("objects/events", "value of a Secret"),
        ("objects/events", "private key"),
        ("objects/baremetalhosts", "query"),
        ("hosts/default/victim/agent.log", "login in a URL"),
    ] {
        assert!(has(file, what), "{file}: {what} is not in the list: {redactions}");
    }
}
