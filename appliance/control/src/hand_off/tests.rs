#![allow(clippy::unwrap_used, reason = "tests")]
use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_resources::{
    BareMetalHost, Secret, bare_metal_host::annotations::HAND_OFF, meta::SecretReference, secret::SecretBytes,
};
use firesteel_wire::{
    HandOffFile,
    hand_off::{Form, Forms},
};
use serde_json::{Value, json};

use super::{
    Extras, Reading, User, compose, file,
    given::{self, Given, Referenced, Ways},
};

const STUB: &str =
    r#"{"ignition":{"version":"3.3.0"},"kernelArguments":{"shouldExist":["nosmt","a b"],"shouldNotExist":["quiet"]}}"#;
const CLOUD: &str = "#cloud-config\nusers: [{name: ann}]\n";

fn host() -> BareMetalHost {
    let mut host = BareMetalHost::default();
    (host.metadata.name, host.metadata.namespace) = ("rack1-07".into(), "default".into());
    host.metadata.uid = "u-1".into();
    host.spec.user_data = Some(SecretReference { name: "user".into(), ..Default::default() });
    host
}

fn secret(name: &str, key: &str, text: &str) -> Referenced {
    let data = [(key.to_owned(), SecretBytes(text.as_bytes().to_vec()))].into();
    Referenced { name: name.into(), secret: Some(Secret { data, ..Secret::default() }) }
}

fn user(text: &str) -> Referenced {
    secret("user", "userData", text)
}

fn ready(reading: Reading) -> Given {
    match reading {
        Reading::Ready(given) => *given,
        Reading::Nothing | Reading::Missing | Reading::Invalid(_) => panic!("{reading:?}"),
    }
}

fn why(reading: Reading) -> String {
    match reading {
        Reading::Invalid(why) => why,
        Reading::Nothing | Reading::Missing | Reading::Ready(_) => panic!("{reading:?}"),
    }
}

fn text<'a>(files: &'a [HandOffFile], path: &str) -> Option<String> {
    let file: &'a HandOffFile = files.iter().find(|file| file.path == path)?;
    Some(String::from_utf8(STANDARD.decode(&file.content_base64).unwrap()).unwrap())
}

fn value(files: &[HandOffFile], path: &str) -> Value {
    serde_json::from_str(&text(files, path).unwrap()).unwrap()
}

fn forms(given: &Given) -> Forms {
    let marks = vec![file("firesteel/marker.json", 0o644, b"{}")];
    let stub = matches!(given.user, User::Ignition(_)).then(|| b"with a token".to_vec());
    compose(&host(), given, &Extras { stub, token: String::new(), marks, volume_id: 7 })
}

/// A bond with a VLAN on it, fixed addresses of both families, a NIC beside them.
fn network() -> Value {
    json!({
        "links": [
            {"id": "enp1s0", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"},
            {"id": "enp2s0", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:02"},
            {"id": "the NIC for storage", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:03", "mtu": 9000},
            {"id": "bond0", "type": "bond", "bond_mode": "802.3ad", "bond_links": ["enp1s0", "enp2s0"], "bond_lacp_rate": "fast"},
            {"id": "vlan7", "type": "vlan", "vlan_id": 7, "vlan_link": "bond0"},
        ],
        "networks": [
            {"id": "a", "link": "vlan7", "type": "ipv4", "ip_address": "192.0.2.7", "netmask": "255.255.255.0",
             "gateway": "192.0.2.1", "dns_nameservers": ["192.0.2.53"],
             "routes": [{"network": "198.51.100.0", "netmask": "255.255.255.0", "gateway": "192.0.2.9"}]},
            {"id": "b", "link": "vlan7", "type": "ipv6", "ip_address": "2001:db8::7/64", "gateway": "2001:db8::1"},
            {"id": "c", "link": "the NIC for storage", "type": "ipv4_dhcp"},
        ],
        "services": [{"type": "dns", "address": "2001:db8::53"}],
    })
}

fn with_network(text: &Value, user_data: &str) -> Reading {
    given::read(
        Ways::default(),
        &host(),
        Some(&user(user_data)),
        None,
        Some(&secret("net", "networkData", &text.to_string())),
    )
}

#[test]
fn an_ignition_config_goes_to_the_boot_partition_or_onto_a_config_drive() {
    let given = ready(given::read(Ways::default(), &host(), Some(&user(STUB)), None, None));
    let forms = forms(&given);
    assert_eq!((forms.form, forms.check()), (Form::Auto, Ok(())));
    assert_eq!(forms.offers(), [Form::BootPartition, Form::ConfigDrive]);
    let boot = forms.boot_partition.unwrap();
    let paths: Vec<&str> = boot.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["ignition/config.ign", "firesteel/marker.json", "ignition.firstboot"], "the last one last");
    assert_eq!((text(&boot.files, paths[0]).unwrap().as_str(), boot.network.len()), ("with a token", 0));
    let drive = forms.config_drive.unwrap();
    assert_eq!(drive.volume_id, 7);
    assert_eq!(text(&drive.files, "openstack/latest/user_data").unwrap(), "with a token");
    let meta = value(&drive.files, "openstack/latest/meta_data.json");
    assert_eq!(
        (&meta["uuid"], &meta["hostname"], &meta["metal3-name"]),
        (&json!("u-1"), &json!("rack1-07"), &json!("rack1-07"))
    );
    assert_eq!(text(&drive.files, "openstack/latest/network_data.json"), None);
    // What the boot loader's file can hold, besides.
    let arguments = forms.arguments.unwrap();
    assert_eq!((arguments.append, arguments.delete), (vec!["nosmt".to_owned()], vec!["quiet".to_owned()]));
}

#[test]
fn cloud_inits_user_data_goes_onto_a_volume_that_it_reads() {
    let meta = secret("meta", "metaData", "local-hostname: other\nrole: worker\n");
    let network = secret("net", "networkData", &network().to_string());
    let given = ready(given::read(Ways::default(), &host(), Some(&user(CLOUD)), Some(&meta), Some(&network)));
    let forms = forms(&given);
    assert_eq!((forms.check(), forms.offers()), (Ok(()), vec![Form::ConfigDrive, Form::NoCloud]));
    let (drive, no_cloud) = (forms.config_drive.unwrap().files, forms.no_cloud.unwrap().files);
    assert_eq!(text(&drive, "openstack/latest/user_data").unwrap(), CLOUD);
    assert_eq!(text(&no_cloud, "user-data").unwrap(), CLOUD);
    let of_drive = value(&drive, "openstack/latest/meta_data.json");
    assert_eq!(
        (&of_drive["local-hostname"], &of_drive["hostname"], &of_drive["role"]),
        (&json!("other"), &json!("other"), &json!("worker")),
        "the owner's wins, also where cloud-init looks"
    );
    let of_no_cloud = value(&no_cloud, "meta-data");
    assert_eq!((&of_no_cloud["instance-id"], &of_no_cloud["local-hostname"]), (&json!("u-1"), &json!("other")));
    assert_eq!(value(&drive, "openstack/latest/network_data.json"), self::network(), "as it was given");
    let config = value(&no_cloud, "network-config");
    assert_eq!(config["version"], 2);
    assert_eq!(config["bonds"]["bond0"]["interfaces"], json!(["enp1s0", "enp2s0"]));
    assert_eq!(config["bonds"]["bond0"]["parameters"]["lacp-rate"], "fast");
    let vlan = &config["vlans"]["vlan7"];
    assert_eq!((&vlan["id"], &vlan["link"]), (&json!(7), &json!("bond0")));
    assert_eq!(vlan["addresses"], json!(["192.0.2.7/24", "2001:db8::7/64"]));
    assert_eq!(vlan["nameservers"]["addresses"], json!(["2001:db8::53", "192.0.2.53"]));
    assert_eq!(vlan["routes"][0], json!({"to": "0.0.0.0/0", "via": "192.0.2.1"}));
    // The kernel takes no such name for an interface.
    let storage = &config["ethernets"]["link2"];
    assert_eq!((&storage["match"]["macaddress"], &storage["mtu"]), (&json!("52:54:00:00:00:03"), &json!(9000)));
    assert_eq!((&storage["set-name"], &storage["dhcp4"]), (&json!("link2"), &json!(true)));
}

#[test]
fn a_first_boots_network_stands_in_dracuts_words() {
    let forms = forms(&ready(with_network(&network(), STUB)));
    assert_eq!(forms.check(), Ok(()));
    let words = forms.boot_partition.unwrap().network;
    let expected = [
        "rd.neednet=1",
        "ifname=nic0:52:54:00:00:00:01",
        "ifname=nic1:52:54:00:00:00:02",
        "ifname=nic2:52:54:00:00:00:03",
        "bond=bond3:nic0,nic1:mode=802.3ad,miimon=100,lacp_rate=fast,xmit_hash_policy=layer2",
        "vlan=bond3.7:bond3",
        "ip=nic2:dhcp:9000",
        "ip=192.0.2.7::192.0.2.1:255.255.255.0:rack1-07:bond3.7:none",
        "ip=[2001:db8::7]::[2001:db8::1]:64:rack1-07:bond3.7:none",
        "rd.route=198.51.100.0/24:192.0.2.9:bond3.7",
        "nameserver=[2001:db8::53]",
        "nameserver=192.0.2.53",
    ];
    assert_eq!(words, expected);
}

#[test]
fn metadata_and_network_alone_are_handed_over_too() {
    let mut host = host();
    host.spec.user_data = None;
    let given = ready(given::read(Ways::default(), &host, None, Some(&secret("meta", "metaData", "a: 1")), None));
    let forms = forms(&given);
    assert_eq!(forms.offers(), [Form::ConfigDrive, Form::NoCloud]);
    assert_eq!(text(&forms.config_drive.unwrap().files, "openstack/latest/user_data"), None);
    assert!(
        text(&forms.no_cloud.unwrap().files, "user-data").unwrap().starts_with("#cloud-config"),
        "NoCloud needs one"
    );
    assert!(matches!(given::read(Ways::default(), &host, None, None, None), Reading::Nothing));
}

#[test]
fn what_cannot_be_handed_over_is_told_with_its_secret_and_field() {
    let read = |user: &Referenced, meta: Option<&Referenced>, network: Option<&Referenced>| {
        why(given::read(Ways::default(), &host(), Some(user), meta, network))
    };
    let missing = || Referenced { name: "gone".into(), secret: None };
    assert!(matches!(given::read(Ways::default(), &host(), Some(&missing()), None, None), Reading::Missing));
    let told = read(&user(r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"a"}]}}"#), None, None);
    assert!(told.contains("Secret user, key userData") && told.contains("storage.files[0].path"), "{told}");
    assert!(read(&user(STUB), Some(&missing()), None).contains("Secret gone that spec.metaData names does not exist"));
    let other_key = secret("net", "nmstate", "{}");
    assert!(read(&user(STUB), None, Some(&other_key)).contains("no key networkData"));
    assert!(
        read(&user(CLOUD), Some(&secret("meta", "metaData", "[1]")), None)
            .contains("key metaData: it must be an object")
    );
    let odd = json!({"links": [{"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01", "odd": 1}]});
    let told = why(with_network(&odd, CLOUD));
    assert!(told.contains("links[0].odd: is not understood") && told.contains("config-drive"), "{told}");

    let wants = |form: &str, text: &str| {
        let mut host = host();
        host.metadata.annotations.insert(HAND_OFF.into(), form.into());
        given::read(Ways::default(), &host, Some(&user(text)), None, None)
    };
    assert!(why(wants("boot-partition", CLOUD)).contains("files on the boot partition"), "cloud-init reads none there");
    assert!(why(wants("no-cloud", STUB)).contains("NoCloud"), "Ignition reads none there");
    assert_eq!(ready(wants("config-drive", STUB)).form, Form::ConfigDrive);
    assert!(why(wants("floppy", STUB)).contains("must be one of auto, boot-partition"));
}

/// A config drive holds what only its reader understands.
#[test]
fn an_owner_who_names_the_drive_may_use_all_of_its_words() {
    let mut host = host();
    host.metadata.annotations.insert(HAND_OFF.into(), "config-drive".into());
    let odd = json!({"links": [{"id": "a", "type": "bridge", "members": []}]});
    let network = secret("net", "networkData", &odd.to_string());
    let forms = forms(&ready(given::read(Ways::default(), &host, Some(&user(CLOUD)), None, Some(&network))));
    assert_eq!(value(&forms.config_drive.unwrap().files, "openstack/latest/network_data.json"), odd);
}

#[test]
fn each_change_of_what_is_handed_over_has_another_digest() {
    let of = |user_data: &str, meta: Option<&str>| {
        let meta = meta.map(|text| secret("meta", "metaData", text));
        ready(given::read(Ways::default(), &host(), Some(&user(user_data)), meta.as_ref(), None)).sha256
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, STUB.as_bytes());
    assert_eq!(of(STUB, None), hex::encode(digest), "of user data alone it is its own");
    let all = [of(STUB, None), of(STUB, Some("a: 1")), of(STUB, Some("a: 2")), of(CLOUD, Some("a: 1"))];
    assert!((0..all.len()).all(|at| !all[..at].contains(&all[at])), "{all:?}");
}

#[test]
fn a_kernel_argument_takes_the_place_of_a_stub_that_says_nothing_else() {
    let urls = ["https://192.0.2.1:22623/config/".to_owned(), "http://192.0.2.1:22624/config/".to_owned()];
    let ways = Ways { urls: &urls, plain: Some("http://192.0.2.1:22624/config/") };
    let stub = json!({"ignition": {
        "version": "3.2.0",
        "config": {"merge": [{"source": "https://192.0.2.1:22623/config/worker"}]},
        "security": {"tls": {"certificateAuthorities": [{"source": "data:,x"}]}}
    }});
    let mut more = stub.clone();
    more["passwd"] = json!({"users": [{"name": "core"}]});
    let mut named = host();
    named.metadata.annotations.insert(HAND_OFF.into(), "kernel-arguments".into());
    let read = |ways: Ways<'_>, host: &BareMetalHost, stub: &Value| {
        given::read(ways, host, Some(&user(&stub.to_string())), None, None)
    };
    let given = ready(read(ways, &named, &stub));
    let extras = Extras { token: "t0".into(), ..Extras::default() };
    let forms = compose(&named, &given, &extras);
    let argument = "ignition.config.url=http://192.0.2.1:22624/config/worker?token=t0";
    assert_eq!(forms.kernel_arguments.unwrap().append, [argument]);
    // Without the network of its owner the host would not come to its config.
    let network = json!({
        "links": [{"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}],
        "networks": [{"id": "n", "type": "ipv4", "link": "a", "ip_address": "192.0.2.7/24"}],
    });
    let network = secret("net", "networkData", &network.to_string());
    let given = ready(given::read(ways, &named, Some(&user(&stub.to_string())), None, Some(&network)));
    let append = compose(&named, &given, &extras).kernel_arguments.unwrap().append;
    assert_eq!(append[..2], [argument, "rd.neednet=1"]);
    assert!(append.iter().any(|argument| argument.starts_with("ip=192.0.2.7:")), "{append:?}");
    assert_eq!(forms.form, Form::KernelArguments);
    let with = |pointer: &str, value: Value| {
        let mut stub = stub.clone();
        *stub.pointer_mut(pointer).unwrap() = value;
        stub
    };
    let source = "https://192.0.2.1:22623/config/worker";
    let mut proxied = stub.clone();
    proxied["ignition"]["proxy"] = json!({"httpProxy": "http://a"});
    let pinned = with(
        "/ignition/config/merge/0",
        json!({"source": source, "verification": {"hash": format!("sha256-{}", "0".repeat(64))}}),
    );
    let headed =
        with("/ignition/config/merge/0", json!({"source": source, "httpHeaders": [{"name": "A", "value": "b"}]}));
    let twice = with("/ignition/config/merge", json!([{"source": source}, {"source": "https://a/b"}]));
    for (ways, stub) in [
        (ways, &more),
        (ways, &proxied),
        (ways, &pinned),
        (ways, &headed),
        (ways, &twice),
        (Ways { plain: None, ..ways }, &stub),
    ] {
        assert!(why(read(ways, &named, stub)).contains("--config-plain-port"));
        assert!(ready(read(ways, &host(), stub)).url.is_none(), "of other forms it takes nothing away");
    }
    let hollow = with("/ignition/config/merge/0", json!({"source": source, "verification": {"hash": null}}));
    assert!(ready(read(ways, &host(), &hollow)).url.is_some());
}

/// Ignition passes over what its spec does not have yet, and so must the boot loader's entry.
#[test]
fn kernel_arguments_are_those_of_specs_that_have_them() {
    let of = |version: &str| {
        let config = json!({"ignition": {"version": version}, "kernelArguments": {"shouldExist": ["nosmt"]}});
        super::wanted_arguments(&config).append.len()
    };
    for (version, count) in
        [("3.2.0", 0), ("3.3.0", 1), ("3.4.0-experimental", 1), ("3.10.0", 1), ("2.4.0", 0), ("", 0)]
    {
        assert_eq!(of(version), count, "{version}");
    }
}
