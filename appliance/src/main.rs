//! `firesteel`: see `firesteel help`.

use clap::Parser as _;
use firesteel_appliance::cli::{self, Cli};

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match cli::run(Cli::parse()).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            cli::print_error(&error);
            std::process::ExitCode::FAILURE
        }
    }
}
