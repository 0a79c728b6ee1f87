//! A pseudo-terminal with a program in it.
#![allow(unsafe_code, reason = "it takes system calls without a safe wrapper; each block says why it is sound")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;

use super::vt_screen::VtScreen;

/// Only a program that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that has a terminal of its own.
pub(crate) struct PseudoTerminal {
    child: Child,
    master: File,
    shown: Arc<SharedScreen>,
    reader: Option<JoinHandle<()>>,
    /// The next picture to look at: none is passed over, however many came at once.
    next: usize,
}

#[derive(Debug)]
struct SharedScreen {
    screen: Mutex<VtScreen>,
    changed: Condvar,
}

/// How a program left its terminal.
pub(crate) struct LeftTerminal {
    pub(crate) code: Option<i32>,
    pub(crate) printed: String,
    pub(crate) is_sane: bool,
}

fn size(width: u16, height: u16) -> libc::winsize {
    libc::winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 }
}

impl PseudoTerminal {
    /// Starts a command in a terminal of this size.
    pub(crate) fn start(mut command: Command, width: u16, height: u16) -> Self {
        let (mut master, mut slave) = (-1, -1);
        let size = size(width, height);
        // SAFETY: both integers and the size outlive the call; no name and no settings are passed.
        let opened = unsafe {
            libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size)
        };
        Errno::result(opened).unwrap();
        // SAFETY: the call made both descriptors, and nothing else owns them.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("CLICOLOR");
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        // SAFETY: both system calls are async-signal-safe, and the closure does nothing else.
        unsafe {
            command.pre_exec(|| {
                nix::unistd::setsid()?;
                Errno::result(libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0))?;
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        // It holds the terminal's other end open.
        drop(command);
        let screen = VtScreen::new(usize::from(width), usize::from(height));
        let shown = Arc::new(SharedScreen { screen: Mutex::new(screen), changed: Condvar::new() });
        let reader = std::thread::spawn({
            let (mut from, shown) = (master.try_clone().unwrap(), shown.clone());
            move || {
                let mut bytes = [0; 4096];
                // When the program is over, reading fails.
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    shown.screen.lock().unwrap_or_else(PoisonError::into_inner).take(&bytes[..count]);
                    shown.changed.notify_all();
                }
            }
        });
        Self { child, master, shown, reader: Some(reader), next: 0 }
    }

    /// Waits for a picture of which this is true, from the one after the last that was waited for on.
    pub(crate) fn wait_for(&mut self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        let ends_at = Instant::now() + PATIENCE;
        let mut screen = self.shown.screen.lock().unwrap();
        loop {
            assert_eq!(screen.faults, Vec::<String>::new(), "{what}");
            while let Some(picture) = screen.pictures.get(self.next).cloned() {
                self.next += 1;
                if is_it(&picture) {
                    return picture;
                }
            }
            let is_over = self.reader.as_ref().is_none_or(JoinHandle::is_finished);
            let last = screen.pictures.last().cloned().unwrap_or_default();
            let printed = &screen.printed;
            assert!(!is_over && Instant::now() < ends_at, "no picture of {what}:\n{last}\n{printed}");
            screen = self.shown.changed.wait_timeout(screen, Duration::from_millis(100)).unwrap().0;
        }
    }

    pub(crate) fn resize(&mut self, width: u16, height: u16) {
        let size = size(width, height);
        // The program draws for the new size from here on; until then nothing of it may be in the way.
        let mut screen = self.shown.screen.lock().unwrap();
        screen.resize(usize::from(width), usize::from(height));
        // SAFETY: the size outlives the call, which reads it.
        let done = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        Errno::result(done).unwrap();
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.master.write_all(keys).unwrap();
    }

    /// Waits for the program's end.
    pub(crate) fn end(mut self) -> LeftTerminal {
        let ends_at = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < ends_at, "the program does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        let screen = self.shown.screen.lock().unwrap();
        assert_eq!(screen.faults, Vec::<String>::new());
        let is_sane = !screen.is_other_page && screen.is_cursor_shown && screen.does_wrap;
        LeftTerminal { code: status.code(), printed: screen.printed.clone(), is_sane }
    }
}

impl Drop for PseudoTerminal {
    fn drop(&mut self) {
        // It has ended by itself where the test went well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
