//! `firesteel`: see `firesteel help`.

use clap::Parser as _;
use firesteel_appliance::cli::{self, FiresteelCli};

/// Objects of 10 kB are read, changed and written by many threads: the C library's allocator takes a third
/// of the processor time of an update, and gives less memory back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match cli::run(FiresteelCli::parse()).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            cli::print_error(&error);
            cli::exit_code(&error)
        }
    }
}
