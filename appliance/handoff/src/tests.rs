#![allow(clippy::unwrap_used, reason = "tests")]
use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_resources::bare_metal_host::annotations::HAND_OFF;
use firesteel_resources::boot_image_stream::DeclaredForm;
use firesteel_resources::secret::SecretBytes;
use firesteel_resources::{BareMetalHost, Secret, SecretReference};
use firesteel_wire::HandOffFile;
use firesteel_wire::hand_off::{Forms, HandOffForm};
use serde_json::{Value, json};

use super::hand_off_inputs::{self, HandOffInputs, HandOffUrls, Referenced};
use super::{AttemptFiles, HandOffReading, OsUserData, compose, file, is_news};

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

fn ready(reading: HandOffReading) -> HandOffInputs {
    match reading {
        HandOffReading::Ready(given) => *given,
        HandOffReading::Nothing | HandOffReading::Missing | HandOffReading::Invalid(_) => panic!("{reading:?}"),
    }
}

fn why(reading: HandOffReading) -> String {
    match reading {
        HandOffReading::Invalid(why) => why.to_string(),
        HandOffReading::Nothing | HandOffReading::Missing | HandOffReading::Ready(_) => panic!("{reading:?}"),
    }
}

fn text<'a>(files: &'a [HandOffFile], path: &str) -> Option<String> {
    let file: &'a HandOffFile = files.iter().find(|file| file.path == path)?;
    Some(String::from_utf8(STANDARD.decode(&file.content_base64).unwrap()).unwrap())
}

fn value(files: &[HandOffFile], path: &str) -> Value {
    serde_json::from_str(&text(files, path).unwrap()).unwrap()
}

fn forms(given: &HandOffInputs) -> Forms {
    let marks = vec![file("firesteel/marker.json", 0o644, b"{}")];
    let stub = matches!(given.user, OsUserData::Ignition(_)).then(|| b"with a token".to_vec());
    compose(&host(), given, &AttemptFiles { stub, token: String::new(), marks, volume_id: 7 })
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

fn with_network(text: &Value, user_data: &str) -> HandOffReading {
    hand_off_inputs::read(
        HandOffUrls::default(),
        &host(),
        Some(&user(user_data)),
        None,
        Some(&secret("net", "networkData", &text.to_string())),
    )
}

#[test]
fn an_ignition_config_goes_to_the_boot_partition_or_onto_a_config_drive() {
    let given = ready(hand_off_inputs::read(HandOffUrls::default(), &host(), Some(&user(STUB)), None, None));
    let forms = forms(&given);
    assert_eq!((forms.form, forms.check()), (HandOffForm::Auto, Ok(())));
    assert_eq!(forms.offers(), [HandOffForm::BootPartition, HandOffForm::ConfigDrive]);
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
    let given =
        ready(hand_off_inputs::read(HandOffUrls::default(), &host(), Some(&user(CLOUD)), Some(&meta), Some(&network)));
    let forms = forms(&given);
    assert_eq!((forms.check(), forms.offers()), (Ok(()), vec![HandOffForm::ConfigDrive, HandOffForm::NoCloud]));
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
    let mut as_given = self::network();
    // Without it real cloud-init reads no network at all.
    as_given["links"][4]["vlan_mac_address"] = json!("52:54:00:00:00:01");
    assert_eq!(value(&drive, "openstack/latest/network_data.json"), as_given, "as it was given, but for that");
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
    assert_eq!(storage["nameservers"], vlan["nameservers"], "DHCP may bring none");
    assert!(config["bonds"]["bond0"].get("nameservers").is_none(), "it has no address");
}

/// The words for one link with these networks, beside those that name it.
fn words(link: &Value, networks: &[Value]) -> Vec<String> {
    let mut links = vec![
        json!({"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}),
        json!({"id": "b", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:02"}),
    ];
    let on = if link.is_null() { json!("a") } else { link["id"].clone() };
    links.extend(Some(link.clone()).filter(|link| !link.is_null()));
    let with_link = |network: &Value| {
        let mut network = network.clone();
        network["link"] = on.clone();
        network
    };
    let networks: Vec<Value> = networks.iter().map(with_link).collect();
    let given = ready(with_network(&json!({"links": links, "networks": networks}), STUB));
    let words = forms(&given).boot_partition.unwrap().network;
    words.into_iter().filter(|word| word.starts_with("ip=")).collect()
}

/// NetworkManager disables the family that has no address yet when it comes to a word of the other one.
#[test]
fn both_families_come_up_on_one_link() {
    let dhcp = json!({"id": "1", "type": "ipv4_dhcp"});
    let slaac = json!({"id": "2", "type": "ipv6_slaac"});
    let v4 = json!({"id": "3", "type": "ipv4", "ip_address": "192.0.2.7/24"});
    let v6 = json!({"id": "4", "type": "ipv6", "ip_address": "2001:db8::7/64"});
    let fixed_v4 = "ip=192.0.2.7:::255.255.255.0:rack1-07:nic0:none";
    let fixed_v6 = "ip=[2001:db8::7]:::64:rack1-07:nic0:none";
    for (networks, expected) in [
        (vec![&dhcp, &slaac], vec!["ip=nic0:dhcp"]),
        (vec![&dhcp, &v6], vec![fixed_v6, "ip=nic0:dhcp"]),
        (vec![&slaac, &v4], vec![fixed_v4, "ip=nic0:auto6"]),
        (vec![&v6, &v4], vec![fixed_v4, fixed_v6]),
        (vec![&v6, &slaac, &dhcp], vec![fixed_v6, "ip=nic0:dhcp"]),
        (vec![&slaac], vec!["ip=nic0:auto6"]),
    ] {
        let networks: Vec<Value> = networks.into_iter().cloned().collect();
        assert_eq!(words(&Value::Null, &networks), expected);
    }
}

#[test]
fn a_bonds_own_address_stands_behind_its_mtu() {
    let mut bond = json!({"id": "bond0", "type": "bond", "bond_mode": "active-backup", "bond_links": ["a", "b"],
                          "ethernet_mac_address": "52:54:00:00:00:0b"});
    let networks =
        [json!({"id": "1", "type": "ipv4_dhcp"}), json!({"id": "2", "type": "ipv6", "ip_address": "2001:db8::7/64"})];
    let fixed = "ip=[2001:db8::7]:::64:rack1-07:bond2:none";
    let expected = [format!("{fixed}::52:54:00:00:00:0b"), "ip=bond2:dhcp::52:54:00:00:00:0b".to_owned()];
    assert_eq!(words(&bond, &networks), expected);
    bond["mtu"] = json!(9000);
    let expected = [format!("{fixed}:9000:52:54:00:00:00:0b"), "ip=bond2:dhcp:9000:52:54:00:00:00:0b".to_owned()];
    assert_eq!(words(&bond, &networks), expected);
}

#[test]
fn domains_that_names_are_looked_for_in_go_to_cloud_init() {
    let with = |search: Value| {
        let mut network = network();
        network["networks"][0]["dns_search"] = search;
        with_network(&network, CLOUD)
    };
    let lost = |reading| ready(reading).warnings.join("; ");
    let config = |search: Value| {
        let forms = forms(&ready(with(search)));
        value(&forms.no_cloud.unwrap().files, "network-config")
    };
    let servers = &config(json!(["example.com", "lab.example.com."]))["vlans"]["vlan7"]["nameservers"];
    assert_eq!(servers["search"], json!(["example.com", "lab.example.com."]));
    assert!(config(json!([]))["vlans"]["vlan7"]["nameservers"].get("search").is_none());
    for bad in [json!(["a b"]), json!([""]), json!(["a..b"]), json!([7]), json!("example.com"), json!(["x".repeat(64)])]
    {
        assert!(lost(with(bad.clone())).contains("networks[0].dns_search"), "{bad}");
    }
    assert!(lost(with(json!(vec!["a"; 7]))).contains("networks[0].dns_search: has more than 6 names"));
}

/// cloud-init unpacks gzip itself, and takes base64 for text that it does not know.
#[test]
fn user_data_in_base64_arrives_as_cloud_init_reads_it() {
    let drive = |text: &str| {
        let forms =
            forms(&ready(hand_off_inputs::read(HandOffUrls::default(), &host(), Some(&user(text)), None, None)));
        let files = forms.config_drive.unwrap().files;
        let file = files.into_iter().find(|file| file.path == "openstack/latest/user_data").unwrap();
        STANDARD.decode(&file.content_base64).unwrap()
    };
    let packed = STANDARD.encode(CLOUD);
    assert_eq!(drive(&packed), CLOUD.as_bytes());
    assert_eq!(drive(&format!("{}\n{}\n", &packed[..8], &packed[8..])), CLOUD.as_bytes());
    // `printf '#!/bin/sh\n' | gzip -n | base64`
    let gzip = "H4sIAAAAAAAAA1NW1E/KzNMvzuACAB2d+wQKAAAA";
    assert_eq!(drive(gzip), STANDARD.decode(gzip).unwrap(), "its gzip stays");
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
        "nameserver=2001:db8::53",
        "nameserver=192.0.2.53",
    ];
    assert_eq!(words, expected);
}

#[test]
fn metadata_and_network_alone_are_handed_over_too() {
    let mut host = host();
    host.spec.user_data = None;
    let given = ready(hand_off_inputs::read(
        HandOffUrls::default(),
        &host,
        None,
        Some(&secret("meta", "metaData", "a: 1")),
        None,
    ));
    let forms = forms(&given);
    assert_eq!(forms.offers(), [HandOffForm::ConfigDrive, HandOffForm::NoCloud]);
    assert_eq!(text(&forms.config_drive.unwrap().files, "openstack/latest/user_data"), None);
    assert!(
        text(&forms.no_cloud.unwrap().files, "user-data").unwrap().starts_with("#cloud-config"),
        "NoCloud needs one"
    );
    assert!(matches!(hand_off_inputs::read(HandOffUrls::default(), &host, None, None, None), HandOffReading::Nothing));
}

#[test]
fn what_cannot_be_handed_over_is_told_with_its_secret_and_field() {
    let read = |user: &Referenced, meta: Option<&Referenced>, network: Option<&Referenced>| {
        why(hand_off_inputs::read(HandOffUrls::default(), &host(), Some(user), meta, network))
    };
    let missing = || Referenced { name: "gone".into(), secret: None };
    assert!(matches!(
        hand_off_inputs::read(HandOffUrls::default(), &host(), Some(&missing()), None, None),
        HandOffReading::Missing
    ));
    let told = read(&user(r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"a"}]}}"#), None, None);
    assert!(told.contains("Secret user, key userData") && told.contains("storage.files[0].path"), "{told}");
    assert!(read(&user(STUB), Some(&missing()), None).contains("Secret gone that spec.metaData names does not exist"));
    let other_key = secret("net", "nmstate", "{}");
    assert!(read(&user(STUB), None, Some(&other_key)).contains("no key networkData"));
    assert!(
        read(&user(CLOUD), Some(&secret("meta", "metaData", "[1]")), None)
            .contains("key metaData: it must be an object")
    );

    let wants = |form: &str, text: &str| {
        let mut host = host();
        host.metadata.annotations.insert(HAND_OFF.into(), form.into());
        hand_off_inputs::read(HandOffUrls::default(), &host, Some(&user(text)), None, None)
    };
    assert!(why(wants("boot-partition", CLOUD)).contains("files on the boot partition"), "cloud-init reads none there");
    assert!(why(wants("no-cloud", STUB)).contains("NoCloud"), "Ignition reads none there");
    assert_eq!(ready(wants("config-drive", STUB)).form, HandOffForm::ConfigDrive);
    assert!(why(wants("floppy", STUB)).contains("must be one of auto, boot-partition"));
}

/// Bonds of all kinds have words for each reader.
#[test]
fn an_os_may_have_bonds_that_need_no_word_of_the_agent() {
    let document = json!({
        "links": [
            {"id": "eth0", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"},
            {"id": "eth1", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:02"},
            {"id": "bond0", "type": "bond", "bond_links": ["eth0", "eth1"], "bond_mode": "balance-xor",
             "bond_xmit_hash_policy": "layer3+4"},
        ],
        "networks": [{"id": "n", "type": "ipv4_dhcp", "link": "bond0"}],
    });
    let given = ready(with_network(&document, STUB));
    assert!(given.warnings.iter().all(|warning| !warning.contains("not understood")), "{:?}", given.warnings);
    let words = forms(&given).boot_partition.unwrap().network;
    let bond = "bond=bond2:nic0,nic1:mode=balance-xor,miimon=100,xmit_hash_policy=layer3+4";
    assert!(words.iter().any(|word| word == bond), "{words:?}");
    let config = value(&forms(&ready(with_network(&document, CLOUD))).no_cloud.unwrap().files, "network-config");
    let parameters = &config["bonds"]["bond0"]["parameters"];
    assert_eq!((&parameters["mode"], &parameters["lacp-rate"]), (&json!("balance-xor"), &Value::Null));
}

/// What is not understood here may be understood by the OS: it is handed over, and what is lost is said.
#[test]
fn a_network_that_is_not_understood_is_handed_over() {
    let odd = json!({"links": [{"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01", "odd": 1}]});
    for text in [CLOUD, STUB] {
        let given = ready(with_network(&odd, text));
        let warned = given.warnings.iter().find(|warning| warning.contains("links[0].odd: is not understood"));
        assert!(warned.is_some_and(|warning| warning.contains("config drive")), "{:?}", given.warnings);
        let forms = forms(&given);
        assert_eq!(value(&forms.config_drive.unwrap().files, "openstack/latest/network_data.json"), odd);
        assert!(forms.boot_partition.is_none_or(|boot| boot.network.is_empty()));
    }
}

/// A config drive holds what only its reader understands.
#[test]
fn an_owner_who_names_the_drive_may_use_all_of_its_words() {
    let mut host = host();
    host.metadata.annotations.insert(HAND_OFF.into(), "config-drive".into());
    let odd = json!({"links": [{"id": "a", "type": "bridge", "members": []}]});
    let network = secret("net", "networkData", &odd.to_string());
    let forms =
        forms(&ready(hand_off_inputs::read(HandOffUrls::default(), &host, Some(&user(CLOUD)), None, Some(&network))));
    assert_eq!(value(&forms.config_drive.unwrap().files, "openstack/latest/network_data.json"), odd);
}

#[test]
fn a_stream_says_the_form_where_the_host_does_not() {
    let declared = |words: &[(&str, &str)]| {
        let one =
            |(stream, word): &(&str, &str)| DeclaredForm { stream: (*stream).to_owned(), word: (*word).to_owned() };
        words.iter().map(one).collect::<Vec<_>>()
    };
    let read = |words: &[(&str, &str)], annotation: Option<&str>, text: &str, network: Option<&Value>| {
        let declared = declared(words);
        let mut host = host();
        if let Some(form) = annotation {
            host.metadata.annotations.insert(HAND_OFF.into(), form.into());
        }
        let network = network.map(|network| secret("net", "networkData", &network.to_string()));
        let ways = HandOffUrls { declared: &declared, ..HandOffUrls::default() };
        hand_off_inputs::read(ways, &host, Some(&user(text)), None, network.as_ref())
    };
    let form = |words: &[(&str, &str)], annotation| forms(&ready(read(words, annotation, STUB, None))).form;
    let stable = [("stable", "config-drive")];
    assert_eq!(form(&stable, None), HandOffForm::ConfigDrive);
    assert_eq!(form(&stable, Some("boot-partition")), HandOffForm::BootPartition, "the host's own word wins");
    assert_eq!(form(&stable, Some("auto")), HandOffForm::Auto);
    assert_eq!(form(&[], None), HandOffForm::Auto);
    // Two streams with the same images.
    assert_eq!(form(&[("next", "auto"), ("stable", "config-drive")], None), HandOffForm::ConfigDrive);
    assert_eq!(form(&[("next", "config-drive"), ("stable", "config-drive")], None), HandOffForm::ConfigDrive);
    let differ = [("next", "boot-partition"), ("stable", "config-drive")];
    let told = why(read(&differ, None, STUB, None));
    assert!(told.contains("BootImageStream next") && told.contains("of stable"), "{told}");
    assert_eq!(form(&differ, Some("config-drive")), HandOffForm::ConfigDrive);

    // What the form is to blame for names the field.
    let field = "spec.handOff of BootImageStream stable";
    let odd = json!({"links": [{"id": "a", "type": "bridge", "members": []}]});
    for (word, text) in [("boot-partition", CLOUD), ("no-cloud", STUB), ("kernel-arguments", STUB), ("nocloud", CLOUD)]
    {
        let told = why(read(&[("stable", word)], None, text, None));
        assert!(told.contains(field) && !told.contains("the annotation firesteel.dev/hand-off:"), "{word}: {told}");
    }
    assert!(
        why(read(&stable, Some("no-cloud"), STUB, None)).contains("the annotation firesteel.dev/hand-off: the hand")
    );
    ready(read(&stable, None, CLOUD, Some(&odd)));
}

#[test]
fn what_may_keep_an_os_from_coming_up_is_told_once() {
    let unit = json!({
        "ignition": {"version": "3.2.0"},
        "storage": {"files": [{"path": "/etc/systemd/system/a.service", "contents": {"source": "data:,s3cr3t"}}]},
        "systemd": {"units": [{"name": "a.service", "contents": "[Unit]\n"}]},
    });
    let warned =
        ready(hand_off_inputs::read(HandOffUrls::default(), &host(), Some(&user(&unit.to_string())), None, None));
    let [warning] = warned.warnings.as_slice() else { panic!("{:?}", warned.warnings) };
    assert!(
        warning.starts_with("Secret user, key userData: storage.files[0].path: is that of a systemd unit"),
        "{warning}"
    );
    assert!(!warning.contains("s3cr3t"));
    let plain = ready(hand_off_inputs::read(HandOffUrls::default(), &host(), Some(&user(STUB)), None, None));
    assert!(plain.warnings.is_empty(), "{:?}", plain.warnings);

    let mut told = String::new();
    assert!(!is_news(&mut told, "", &plain) && is_news(&mut told, "", &warned) && !is_news(&mut told, "", &warned));
    let kept = told.clone();
    assert!(kept.len() == 64 && !kept.contains("systemd"), "{kept}");
    let mut after_a_restart = String::new();
    assert!(!is_news(&mut after_a_restart, &kept, &warned) && after_a_restart == kept);
    let other = HandOffInputs { sha256: "other".into(), ..warned.clone() };
    assert!(is_news(&mut told, &kept, &other), "another user data with the same fault");

    let fields: serde_json::Map<String, Value> =
        (0..60).map(|number| (format!("\u{1b}{}{number}", "x".repeat(90)), json!(1))).collect();
    let mut many = json!({"ignition": {"version": "3.2.0"}});
    many.as_object_mut().unwrap().extend(fields);
    let many =
        ready(hand_off_inputs::read(HandOffUrls::default(), &host(), Some(&user(&many.to_string())), None, None));
    assert!(many.warnings[0].len() <= 1024 && many.warnings[0].ends_with(" more"), "{:?}", many.warnings);
    assert!(!many.warnings[0].contains('\u{1b}'));
}

#[test]
fn a_network_where_ignition_does_not_look_is_told() {
    let read = |form: Option<&str>, text: &str| {
        let mut host = host();
        if let Some(form) = form {
            host.metadata.annotations.insert(HAND_OFF.into(), form.into());
        }
        let network = secret("net", "networkData", &network().to_string());
        ready(hand_off_inputs::read(HandOffUrls::default(), &host, Some(&user(text)), None, Some(&network))).warnings
    };
    assert!(read(Some("config-drive"), STUB)[0].starts_with("the network of spec.networkData is on the config drive"));
    assert!(read(None, STUB)[0].starts_with("if the image takes a config drive"));
    assert!(read(Some("boot-partition"), STUB).is_empty(), "arguments of the first boot say it");
    assert!(read(Some("config-drive"), CLOUD).is_empty() && read(None, CLOUD).is_empty(), "cloud-init reads it");
}

#[test]
fn each_change_of_what_is_handed_over_has_another_digest() {
    let of = |user_data: &str, meta: Option<&str>| {
        let meta = meta.map(|text| secret("meta", "metaData", text));
        ready(hand_off_inputs::read(HandOffUrls::default(), &host(), Some(&user(user_data)), meta.as_ref(), None))
            .sha256
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, STUB.as_bytes());
    assert_eq!(of(STUB, None), hex::encode(digest), "of user data alone it is its own");
    let all = [of(STUB, None), of(STUB, Some("a: 1")), of(STUB, Some("a: 2")), of(CLOUD, Some("a: 1"))];
    assert!((0..all.len()).all(|at| !all[..at].contains(&all[at])), "{all:?}");
}

#[test]
fn a_kernel_argument_takes_the_place_of_a_stub_that_says_nothing_else() {
    let urls = ["https://192.0.2.1:22623/config/".to_owned(), "http://192.0.2.1:22624/config/".to_owned()];
    let ways = HandOffUrls { urls: &urls, plain: Some("http://192.0.2.1:22624/config/"), ..HandOffUrls::default() };
    let stub = json!({"ignition": {
        "version": "3.2.0",
        "config": {"merge": [{"source": "https://192.0.2.1:22623/config/worker"}]},
        "security": {"tls": {"certificateAuthorities": [{"source": "data:,x"}]}}
    }});
    let mut more = stub.clone();
    more["passwd"] = json!({"users": [{"name": "core"}]});
    let mut named = host();
    named.metadata.annotations.insert(HAND_OFF.into(), "kernel-arguments".into());
    let read = |ways: HandOffUrls<'_>, host: &BareMetalHost, stub: &Value| {
        hand_off_inputs::read(ways, host, Some(&user(&stub.to_string())), None, None)
    };
    let given = ready(read(ways, &named, &stub));
    let extras = AttemptFiles { token: "t0".into(), ..AttemptFiles::default() };
    let forms = compose(&named, &given, &extras);
    let argument = "ignition.config.url=http://192.0.2.1:22624/config/worker?token=t0";
    assert_eq!(forms.kernel_arguments.unwrap().append, [argument]);
    // Without the network of its owner the host would not come to its config.
    let network = json!({
        "links": [{"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}],
        "networks": [{"id": "n", "type": "ipv4", "link": "a", "ip_address": "192.0.2.7/24"}],
    });
    let network = secret("net", "networkData", &network.to_string());
    let given = ready(hand_off_inputs::read(ways, &named, Some(&user(&stub.to_string())), None, Some(&network)));
    let append = compose(&named, &given, &extras).kernel_arguments.unwrap().append;
    assert_eq!(append[..2], [argument, "rd.neednet=1"]);
    assert!(append.iter().any(|argument| argument.starts_with("ip=192.0.2.7:")), "{append:?}");
    assert_eq!(forms.form, HandOffForm::KernelArguments);
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
        (HandOffUrls { plain: None, ..ways }, &stub),
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
