//! Switches that are heard on a real cable of the kernel: two ends of a veth pair in a network namespace of
//! the test's own, which is gone with its thread. Without the right to make one the test says so.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use firesteel_agent::lldp_socket::LldpListener;
use firesteel_os as os;
use firesteel_steps::board::ReportBoard;
use firesteel_sysfs::Roots;
use firesteel_wire::Neighbour;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{MsgFlags, send};

/// Nothing is said for so long before a test believes that nothing will be.
const PATIENCE: Duration = Duration::from_secs(60);

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).status().is_ok_and(|status| status.success())
}

/// Runs a test in a network of its own, or says why not.
fn in_own_network(test: fn()) {
    let ran = thread::spawn(move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("skipped: no network namespace: {error}");
            return;
        }
        if !ip("link add eth0 type veth peer name switch0") || !ip("link set switch0 up") {
            eprintln!("skipped: no veth pair, or no iproute2");
            return;
        }
        test();
    });
    ran.join().unwrap();
}

/// What the kernel shows of the NIC, where the test looks: its own `/sys` may be of another network.
fn show(sys: &Path, up: bool) {
    let folder = sys.join("class/net/eth0");
    fs::create_dir_all(folder.join("device")).unwrap();
    let index = nix::net::if_::if_nametoindex("eth0").unwrap();
    for (name, text) in [("address", "52:54:00:00:00:01\n"), ("flags", if up { "0x1003\n" } else { "0x1002\n" })] {
        fs::write(folder.join(name), text).unwrap();
    }
    fs::write(folder.join("ifindex"), format!("{index}\n")).unwrap();
}

fn value(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&(u16::from(kind) << 9 | u16::try_from(bytes.len()).unwrap()).to_be_bytes()[..], bytes].concat()
}

fn frame(port: &str, name: &str) -> Vec<u8> {
    let values = [
        value(1, &[4, 0x00, 0x1c, 0x73, 0xaa, 0xbb, 0xcc]),
        value(2, &[&[5][..], port.as_bytes()].concat()),
        value(3, &[0, 120]),
        value(5, name.as_bytes()),
        value(0, &[]),
    ];
    let head = [0x01, 0x80, 0xc2, 0, 0, 0x0e, 0x00, 0x1c, 0x73, 0xaa, 0xbb, 0xcd, 0x88, 0xcc];
    [&head[..], &values.concat()].concat()
}

/// The other end of the cable.
fn switch() -> OwnedFd {
    os::network::frame_socket(nix::net::if_::if_nametoindex("switch0").unwrap(), 0x88cc, &[]).unwrap()
}

fn say(switch: &OwnedFd, frame: &[u8]) {
    assert_eq!(send(switch.as_raw_fd(), frame, MsgFlags::empty()).unwrap(), frame.len());
}

/// Listens until there is something new on the board. What is said is said again and again, as switches do: the
/// kernel drops what is sent in the first moments of a link.
fn heard(listener: &mut LldpListener, board: &ReportBoard, say: impl Fn()) -> Vec<Neighbour> {
    let began = Instant::now();
    let before = board.neighbours();
    while board.neighbours() == before {
        assert!(began.elapsed() < PATIENCE, "nothing was heard");
        say();
        listener.receive_frames(board, Duration::from_millis(50));
    }
    board.neighbours()
}

#[test]
fn a_switch_is_heard_after_frames_that_lie() {
    in_own_network(|| {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { sys: folder.path().into(), proc: folder.path().into(), ..Roots::default() };
        show(folder.path(), false);
        let board = ReportBoard::new(None);
        let mut listener = LldpListener::new(roots);
        listener.open_new_nics();
        let groups = Command::new("ip").args(["maddress", "show", "dev", "eth0"]).output().unwrap();
        let groups = String::from_utf8_lossy(&groups.stdout).into_owned();
        assert!(groups.contains("01:80:c2:00:00:0e"), "a NIC passes only what it was told to: {groups}");

        let switch = switch();
        let good = frame("Ethernet17/1", "leaf-4a.example");
        // A value that is longer than the frame, no value at all, another protocol.
        let mut lie = good.clone();
        lie[14] |= 1;
        let bare = good[..14].to_vec();
        let mut other = good.clone();
        other[13] = 0xcd;
        let found = heard(&mut listener, &board, || {
            for bad in [&lie, &bare, &other] {
                say(&switch, bad);
            }
            say(&switch, &good);
        });
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].nic, &*found[0].mac), ("eth0", "52:54:00:00:00:01"));
        assert_eq!((&*found[0].switch_id, &*found[0].port_id), ("00:1c:73:aa:bb:cc", "Ethernet17/1"));
        assert_eq!(found[0].switch_name, "leaf-4a.example");
    });
}

#[test]
fn a_nic_that_goes_and_comes_is_listened_to_again() {
    in_own_network(|| {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { sys: folder.path().into(), proc: folder.path().into(), ..Roots::default() };
        let board = ReportBoard::new(None);
        let mut listener = LldpListener::new(roots);
        listener.open_new_nics();
        listener.receive_frames(&board, Duration::from_millis(1));
        assert!(ip("link set eth0 up"), "its driver came late");
        show(folder.path(), true);
        listener.open_new_nics();
        let plugged = switch();
        let found = heard(&mut listener, &board, || say(&plugged, &frame("1", "first")));
        assert_eq!(found[0].switch_name, "first");

        assert!(ip("link delete eth0") && ip("link add eth0 type veth peer name switch0") && ip("link set switch0 up"));
        listener.receive_frames(&board, Duration::from_millis(1));
        show(folder.path(), false);
        listener.open_new_nics();
        // Another port of the same switch would wait until the first one's time is over: it says good-bye.
        let mut bye = frame("1", "first");
        let time = bye.windows(4).position(|four| four == [6, 2, 0, 120]).unwrap();
        bye[time + 3] = 0;
        let switch = switch();
        let found = heard(&mut listener, &board, || {
            say(&switch, &bye);
            say(&switch, &frame("2", "second"));
        });
        assert_eq!(found[0].port_id, "2");
    });
}
