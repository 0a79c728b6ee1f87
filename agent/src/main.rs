//! One binary, three parts: PID 1, its worker, and the kernel's modprobe.

use std::{ffi::OsString, process::ExitCode};

use firesteel_agent::{init, worker};
use firesteel_modules as modules;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if std::process::id() == 1 {
        init::main();
    }
    if arguments.get(1).is_some_and(|part| part == init::WORKER_ARGUMENT) {
        return worker::main();
    }
    if modules::modprobe_request(&arguments).is_some() {
        return ExitCode::from(u8::try_from(modules::modprobe(&arguments)).unwrap_or(1));
    }
    eprintln!("This is Firesteel's agent. It runs as /init of Firesteel's ramdisk and does nothing elsewhere.");
    ExitCode::FAILURE
}
