//! `lab`: Firesteel's virtual machines, networks and end-to-end runs. Started by `qemu/lab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match firesteel_lab::cli::run() {
        Ok(code) => code,
        Err(error) => {
            firesteel_lab::progress::print_status(&format!("failed: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
