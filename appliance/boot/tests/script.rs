//! Boot scripts as a whole: what they say for each entry, and that no foreign value gets out of its place.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::Ipv4Addr;

use firesteel_boot::{
    BootEntry, BootTokenClaims, DiskProbe, Endpoints, KernelArguments, Platform, Purpose, ScriptContext, ScriptError,
    ScriptRequest, SealedToken, Sealer, autoexec, render,
};
use proptest::prelude::*;

const ENDPOINTS: Endpoints = Endpoints { address: Ipv4Addr::new(10, 77, 0, 1), http_port: 8080, agent_port: 8443 };

fn token() -> SealedToken {
    let claims =
        BootTokenClaims { purpose: Purpose::Agent, subject: "uid".into(), attempt: 1, expires_s: 9, boot: None };
    Sealer::new(&[1; 32]).seal(&claims).unwrap()
}

fn script_on(platform: Platform, entry: &BootEntry, arguments: &KernelArguments) -> String {
    let request = ScriptRequest {
        mac: "52-54-00-01-02-03".parse().unwrap(),
        platform,
        buildarch: None,
        uuid: None,
        serial: None,
        odd: Vec::new(),
    };
    let token = token();
    render(entry, &ScriptContext { endpoints: &ENDPOINTS, request: &request, token: Some(&token), arguments }).unwrap()
}

fn agent_entry(host: &str) -> BootEntry {
    BootEntry::Agent { host: host.into(), attempt: 2 }
}

#[test]
fn the_agent_is_fetched_and_started_with_bounded_retries() {
    let arguments = KernelArguments::parse("console=tty0 console=ttyS0,115200n8").unwrap();
    let script = script_on(Platform::Efi, &agent_entry("node-1"), &arguments);
    let token = script.split("/boot/").nth(1).unwrap().split('/').next().unwrap();
    assert_eq!(
        script.replace(token, "TOKEN"),
        "\
#!ipxe
echo Firesteel: this machine is 52-54-00-01-02-03
echo Firesteel: host node-1, attempt 2: starting the agent
set fetch-round:int32 0
:fetch
imgfree
kernel --name kernel http://10.77.0.1:8080/boot/TOKEN/kernel initrd=initramfs console=tty0 console=ttyS0,115200n8 || goto fetch-again
initrd --name initramfs http://10.77.0.1:8080/boot/TOKEN/initramfs || goto fetch-again
boot || goto fetch-again
:fetch-again
inc fetch-round
iseq ${fetch-round} 10 && goto fetch-failed ||
echo Firesteel: failed, round ${fetch-round} of 10, again in 5 seconds
sleep 5
goto fetch
:fetch-failed
echo Firesteel: the kernel could not be fetched or started, restarting in 30 seconds
sleep 30
reboot
"
    );
}

#[test]
fn an_agent_without_a_token_is_an_error() {
    let request = ScriptRequest::parse("mac=52-54-00-01-02-03&platform=efi").unwrap();
    let arguments = KernelArguments::default();
    let context = ScriptContext { endpoints: &ENDPOINTS, request: &request, token: None, arguments: &arguments };
    assert_eq!(render(&BootEntry::Discovery, &context), Err(ScriptError::NoToken));
    assert!(render(&BootEntry::Exit { reason: "none".into() }, &context).is_ok());
}

#[test]
fn who_waits_asks_again_and_no_token_is_needed() {
    let request = ScriptRequest::parse("mac=52-54-00-01-02-03&platform=efi").unwrap();
    let arguments = KernelArguments::default();
    let context = ScriptContext { endpoints: &ENDPOINTS, request: &request, token: None, arguments: &arguments };
    let entry = BootEntry::Wait { host: "node-1".into(), why: "its agent is at work".into() };
    let script = render(&entry, &context).unwrap();
    let wanted = "\
#!ipxe
echo Firesteel: this machine is 52-54-00-01-02-03
echo Firesteel: host node-1 waits
echo Firesteel: its agent is at work
sleep 10
set script-round:int32 0
:script
chain --replace --autofree http://10.77.0.1:8080/boot.ipxe?mac=52-54-00-01-02-03&uuid=${uuid}&serial=${serial:uristring}&platform=${platform}&buildarch=${buildarch} || goto script-again
";
    assert!(script.starts_with(wanted) && script.ends_with("\nsleep 30\nreboot\n"), "{script}");
}

/// Going on to an old disk would boot the system that is about to be replaced.
#[test]
fn who_may_not_be_the_host_restarts() {
    let request = ScriptRequest::parse("mac=52-54-00-01-02-03&platform=efi").unwrap();
    let arguments = KernelArguments::default();
    let context = ScriptContext { endpoints: &ENDPOINTS, request: &request, token: None, arguments: &arguments };
    let entry = BootEntry::Mismatch { host: "node-1".into(), reason: "asked from 10.77.0.9".into() };
    let script = render(&entry, &context).unwrap();
    assert!(
        script.contains("no token of host node-1 for this machine\necho Firesteel: asked from 10.77.0.9"),
        "{script}"
    );
    assert!(script.ends_with("\nsleep 30\nreboot\n") && !script.contains("/boot/"), "{script}");
}

#[test]
fn a_provisioned_uefi_host_goes_back_to_its_firmware() {
    let entry = BootEntry::LocalDisk { host: "node-1".into(), probe: Some(DiskProbe::gpt_disk_guid(&[1; 16])) };
    let script = script_on(Platform::Efi, &entry, &KernelArguments::default());
    assert!(script.ends_with("\nexit 1\n"));
    assert!(!script.contains("sanboot"));
}

#[test]
fn a_provisioned_bios_host_boots_only_the_disk_that_was_written() {
    let entry = BootEntry::LocalDisk { host: "node-1".into(), probe: Some(DiskProbe::gpt_disk_guid(&[0xab; 16])) };
    let script = script_on(Platform::Bios, &entry, &KernelArguments::default());
    let guid = "ab".repeat(16);
    for drive in 0x80..0x88 {
        let chain = format!(
            "chain --autofree http://10.77.0.1:8080/disk-probe/1-56-{guid}/{drive:02x} && goto disk-{drive:02x} ||\n"
        );
        assert!(script.contains(&chain), "{script}");
        let boot = format!(
            ":disk-{drive:02x}\necho Firesteel: booting drive 0x{drive:02x}\nsanboot --no-describe --drive 0x{drive:02x} ||\nexit 1\n"
        );
        assert!(script.contains(&boot), "{script}");
    }
    let reported = script.find("http://10.77.0.1:8080/boot/52-54-00-01-02-03/no-disk").unwrap();
    assert!(reported < script.find(":disk-80").unwrap(), "reported where no drive matched");
}

#[test]
fn autoexec_chains_the_same_script() {
    let script = autoexec(&ENDPOINTS);
    assert!(script.starts_with("#!ipxe\n"));
    assert!(script.contains(
        "\nchain --replace --autofree http://10.77.0.1:8080/boot.ipxe?mac=${netX/mac:hexhyp}&uuid=${uuid}&serial=${serial:uristring}&platform=${platform}&buildarch=${buildarch} || goto script-again\n"
    ));
}

/// Lines that begin a command, with everything after `echo …: ` cut off.
fn commands(script: &str) -> Vec<&str> {
    script.lines().map(|line| if line.starts_with("echo ") { "echo" } else { line }).collect()
}

/// Anything at all, and often the characters that mean something to iPXE.
fn hostile() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        "\n",
        "\r",
        "\0",
        "\u{b}",
        "\u{85}",
        "\u{2028}",
        ";",
        " ; ",
        "&&",
        "||",
        " || reboot",
        "#",
        "${",
        "}",
        "${net0/mac}",
        "`",
        "\\",
        "\"",
        "'",
        " ",
        "\t",
        ":",
        "goto ",
        "shell",
        "é",
        "-n",
    ]);
    prop_oneof![
        prop::collection::vec(prop_oneof![special.prop_map(str::to_owned), ".{0,5}"], 0..12)
            .prop_map(|parts| parts.concat()),
        prop::collection::vec(any::<char>(), 0..200).prop_map(|chars| chars.into_iter().collect::<String>()),
    ]
}

proptest! {
    #[test]
    fn no_name_or_reason_changes_what_a_script_does(text in hostile(), bios: bool) {
        let platform = if bios { Platform::Bios } else { Platform::Efi };
        let probe = Some(DiskProbe::gpt_disk_guid(&[1; 16]));
        let none = KernelArguments::default();
        for (entry, plain) in [
            (BootEntry::Exit { reason: text.clone() }, BootEntry::Exit { reason: "x".into() }),
            (
                BootEntry::Mismatch { host: text.clone(), reason: text.clone() },
                BootEntry::Mismatch { host: "x".into(), reason: "x".into() },
            ),
            (
                BootEntry::LocalDisk { host: text.clone(), probe: probe.clone() },
                BootEntry::LocalDisk { host: "x".into(), probe },
            ),
        ] {
            let script = script_on(platform, &entry, &none);
            let expected = script_on(platform, &plain, &none);
            prop_assert_eq!(commands(&script), commands(&expected));
            prop_assert!(!script.contains("${"), "{}", script);
        }
        let script = script_on(platform, &agent_entry(&text), &none);
        prop_assert_eq!(script.matches("${").count(), 2, "{}", script);
        prop_assert_eq!(script.lines().count(), script_on(platform, &agent_entry("x"), &none).lines().count());
        for line in script.lines().filter(|line| line.starts_with("echo ")) {
            let harmless = |c: char| c.is_ascii_graphic() || c == ' ';
            prop_assert!(line.chars().all(harmless) && !line.contains([';', '&', '|', '#', '`', '\\']), "{}", line);
        }
    }

    #[test]
    fn an_argument_is_carried_as_it_is_or_refused(argument in hostile()) {
        let Ok(arguments) = KernelArguments::new([&argument]) else { return Ok(()) };
        let script = script_on(Platform::Efi, &agent_entry("x"), &arguments);
        let plain = script_on(Platform::Efi, &agent_entry("x"), &KernelArguments::default());
        prop_assert_eq!(script.lines().count(), plain.lines().count());
        let kernel = script.lines().find(|line| line.starts_with("kernel ")).unwrap();
        let words: Vec<&str> = kernel.split_ascii_whitespace().collect();
        prop_assert_eq!(words.len(), 9, "{}", kernel);
        prop_assert_eq!(words[5], argument);
        prop_assert_eq!(&words[6..], &["||", "goto", "fetch-again"][..]);
    }
}
