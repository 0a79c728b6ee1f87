//! The script that tells of a failed first boot, run as it stands in the image's initramfs, but for the places of files:
//! there is no boot partition to mount, and no journal, so stand-ins of `mount` and `journalctl` are on its path.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

const SCRIPT: &str = include_str!("../image/overlay/usr/lib/dracut/modules.d/35firesteel/report-failure.sh");

fn program(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the script; `volume` is what lies on the one volume that there is, `journal` what was logged.
fn run(folder: &Path, device: &str, report_conf: &str, journal: &str) -> Output {
    let volume = folder.join("volume/firesteel");
    fs::create_dir_all(&volume).unwrap();
    fs::write(volume.join("report.conf"), report_conf).unwrap();
    fs::write(volume.join("ca.crt"), "").unwrap();
    fs::write(folder.join("journal"), journal).unwrap();
    let path = folder.join("bin");
    fs::create_dir_all(&path).unwrap();
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    // Its last argument is where it mounts.
    program(&path, "mount", &format!("cp -r {}/. \"${{@: -1}}\"", at("volume")));
    program(&path, "umount", "exit 0");
    program(&path, "sleep", "exit 0");
    program(&path, "journalctl", &format!("cat {}", at("journal")));
    fs::create_dir_all(folder.join("disk")).unwrap();
    fs::write(folder.join("disk").join(device), "").unwrap();
    let script = SCRIPT
        .replace("/run/firesteel-report", &at("work"))
        .replace("/dev/disk/by-label", &at("disk"))
        .replace("/dev/disk", &at("disk"))
        .replace("/dev/kmsg", &at("kmsg"))
        .replace("[ -b ", "[ -e ");
    let search = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    Command::new("bash").args(["-c", &script]).env("PATH", search).env("no_proxy", "127.0.0.1").output().unwrap()
}

/// Answers one request after the other with these statuses, and gives what was asked.
fn serve(statuses: &'static [u16]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let answer = |status: &u16| {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read(&mut stream);
            let head = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            request
        };
        statuses.iter().map(answer).collect()
    });
    (url, served)
}

fn read(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).unwrap();
        request.extend(&piece[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return text;
        }
    }
}

#[test]
fn the_end_of_the_log_goes_to_the_appliance_with_the_token_and_without_any_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let (url, served) = serve(&[503, 204]);
    let conf = format!("FIRESTEEL_REPORT_URL={url}\nFIRESTEEL_REPORT_TOKEN=t0.k-en_==\n");
    let old = "[    1.000000] systemd[1]: something old\n".repeat(1000);
    let end = "[   20.1] ignition[700]: GET https://a/config/worker?token=s3cr3t: attempt #1\n\
               [   20.2] ignition[700]: unsupported config version\n";
    let output = run(folder.path(), "firesteel-boot", &conf, &format!("{old}{end}"));
    assert!(output.status.success(), "{output:?}");
    let requests = served.join().unwrap();
    assert_eq!(requests[0], requests[1], "a report that does not arrive is sent again");
    let (head, body) = requests[1].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /x HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nAuthorization: Bearer t0.k-en_==\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/plain\r\n"), "{head}");
    assert!(body.len() <= 16 << 10 && body.len() > 15 << 10, "{} bytes", body.len());
    assert!(body.starts_with("[    1.000000] systemd[1]"), "it begins with a whole line: {:?}", &body[..60]);
    assert!(body.ends_with("?token=hidden attempt #1\n[   20.2] ignition[700]: unsupported config version\n"));
    assert!(fs::read_to_string(folder.path().join("kmsg")).unwrap().contains("reported that the first boot failed"));
}

#[test]
fn a_config_drive_will_do_and_a_refusal_is_final() {
    let folder = tempfile::tempdir().unwrap();
    let (url, served) = serve(&[403]);
    let conf = format!(
        "FIRESTEEL_REPORT_URL=\"{url}\"\nFIRESTEEL_REPORT_TOKEN='t'\n$(touch {}/ran)\n",
        folder.path().display()
    );
    let output = run(folder.path(), "config-2", &conf, "one line\n");
    assert_eq!(output.status.code(), Some(1));
    let requests = served.join().unwrap();
    assert!(requests[0].ends_with("\r\n\r\none line\n") && requests[0].contains("Bearer t\r\n"), "{requests:?}");
    assert!(fs::read_to_string(folder.path().join("kmsg")).unwrap().contains("refused with 403"));
    assert!(!folder.path().join("ran").exists(), "what is on the volume is read, not run");
}

#[test]
fn without_a_report_conf_it_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "other-disk", "", "x\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(fs::read_to_string(folder.path().join("kmsg")).unwrap().contains("gave up"));
}
