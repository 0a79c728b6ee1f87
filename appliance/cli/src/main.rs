//! `firesteel`: see `firesteel help`.

/// Many threads read, change and write objects of 10 kB: with the C library's allocator, a third of the processor time
/// of an update is spent there, and it gives less memory back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match firesteel_cli::run(firesteel_cli::parse()).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            firesteel_cli::print_error(&error);
            firesteel_cli::exit_code(&error)
        }
    }
}
