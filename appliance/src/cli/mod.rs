//! The command line: one process to serve, the same binary to talk to it.

mod accept_clock;
mod adopt;
mod apply;
mod audit;
mod backup;
mod client;
mod delete_damaged;
mod describe;
mod extend_token;
mod get;
#[cfg(test)]
mod golden;
mod halt;
mod image;
mod kinds;
mod kubeconfig;
mod output;
mod plan;
mod receipt;
mod rekey;
mod request;
mod rotate_ca;
mod table;
mod unowned_machines;
mod watch;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::{
    backup::{RestoreKeySource, RestoreOptions},
    privacy,
    serve::{self, settings::RawSettings},
};

pub use client::ApiClient;
pub use describe::render as describe_page;
pub use output::print_error;
use output::{print_text, print_warning};

/// Firesteel takes a server from power-on to a running, configured operating system.
#[derive(Debug, Parser)]
#[command(name = "firesteel", version, propagate_version = true)]
pub struct FiresteelCli {
    #[command(flatten)]
    pub connection: ConnectionOptions,
    #[command(subcommand)]
    pub command: CliCommand,
}

/// How client commands find the appliance.
#[derive(Clone, Debug, Args)]
pub struct ConnectionOptions {
    /// Kubeconfig with the appliance's address, CA and token [default: DATA/admin.kubeconfig]
    #[arg(long, global = true, value_name = "FILE", env = "FIRESTEEL_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of hosts and secrets [default: the kubeconfig's, or "default"]
    #[arg(long, short, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Run the appliance
    Serve(Box<RawSettings>),
    /// Bring OS images into the appliance's store and out of it, or list them
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Create or change the objects in a YAML or JSON file
    Apply {
        /// File with one or more objects, `-` for standard input
        #[arg(long, short)]
        filename: String,
    },
    /// List objects
    Get {
        /// `hosts`, or another kind by its plural or short name
        kind: String,
        /// One object
        name: Option<String>,
        #[arg(long, short, value_enum, default_value_t)]
        output: OutputFormat,
    },
    /// Everything about one object: state, reason, plan, timeline, receipts
    Describe {
        /// `host`
        kind: String,
        /// Its name; of a machine that is no host its MAC
        name: String,
        #[arg(long, short, value_enum, default_value_t)]
        output: OutputFormat,
    },
    /// Turn a discovered machine into a host
    Adopt {
        /// MAC or SMBIOS UUID as `get hosts` shows it
        machine: String,
        /// Name of the new host
        #[arg(long)]
        name: String,
    },
    /// Forget a host's error and try again now
    Retry { host: String },
    /// Take the machine that was refused for a host as this host: its board or firmware was changed
    AcceptIdentity { host: String },
    /// Let a host go on whose erasure is unverified and held
    AcceptErasure { host: String },
    /// Say that the appliance's clock is right, although its store has newer times
    ///
    /// While the clock is more than an hour before the newest time in the store, no disk of any host is changed: the
    /// clock may have gone back. Where it was ahead before, and is right now, this command says so.
    AcceptClock,
    /// Say which of several machines that claim to be a host is the host, or that none of them is known to be it
    ///
    /// While more than one machine claims to be a host, none of its disks is changed. `firesteel describe host HOST` shows
    /// each with its key, MAC and address. Without a word the attempt ends by itself after a day.
    ChooseAgent {
        host: String,
        /// Key of the agent that runs on the host: all digits, or the first ones
        #[arg(long, value_name = "KEY", required_unless_present = "none", conflicts_with = "none")]
        key: Option<String>,
        /// End the attempt: all of them are sent away, and the host boots again
        #[arg(long)]
        none: bool,
    },
    /// Restart a host through its BMC
    Reboot {
        host: String,
        /// Cut the power instead of asking the OS
        #[arg(long)]
        hard: bool,
    },
    /// Let a frozen host go on: the named installation may be overwritten
    ///
    /// A host is frozen while a disk of it was installed after the backup that the store was restored from, or by
    /// another appliance, or could not be read. `firesteel describe host HOST` says which disk it is and its name here.
    Unfreeze {
        host: String,
        /// Mark of the installation, or name of the disk that could not be read, as the host's reason tells it
        #[arg(long, value_name = "GUID")]
        disk: String,
    },
    /// Clean a host and let it go
    Release {
        host: String,
        /// Forget the host without cleaning its disk; a tombstone stays
        #[arg(long)]
        force: bool,
    },
    /// Stop the whole fleet: no disk of any host is changed until `firesteel resume`
    ///
    /// No step that destroys begins, and those under way hold at their next safe point. All else goes on: hosts
    /// are inspected, switched on and off, and run. Each host that waits says who stopped the fleet, and why.
    Halt {
        /// Why; every host that waits shows it
        #[arg(long, short, value_name = "TEXT")]
        reason: String,
        /// Of this halt, where there is more than one [default: fleet]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// End a halt of the fleet
    Resume {
        /// Which, where there is more than one [default: fleet]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// What the next installation and the next cleaning would do to each disk of a host; nothing is done
    Plan {
        host: String,
        #[arg(long, short, value_enum, default_value_t)]
        output: OutputFormat,
    },
    /// Keep all disks of a host from being cleaned or written; what is under way stops at a safe point
    Lock {
        host: String,
        /// Who or why, shown in the host's status
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Let the disks of a host be cleaned and written again
    Unlock { host: String },
    /// Signed evidence of what was done to disks
    #[command(subcommand)]
    Receipt(receipt::ReceiptCommand),
    /// Live view of all hosts
    Watch {
        /// Only these hosts
        hosts: Vec<String>,
        /// End when every host shown reached this state, such as `provisioned`, or `new` before it has one
        #[arg(long, value_name = "STATE", value_parser = watch::state)]
        until: Option<String>,
    },
    /// Let somebody in with a role, by a kubeconfig of his own; or out again
    Kubeconfig(kubeconfig::KubeconfigOptions),
    /// Fetch all objects of the appliance, as of one moment, into a file
    ///
    /// Private keys are not in it: keep a copy of the folders `pki` and `secrets` of the data folder, and of the
    /// key that Secrets are sealed with, at another place. They stay the same until `firesteel rekey` or a rotation of
    /// the CA: a backup that is made after it needs a copy that is. Images are not in it either: hosts name where they come from.
    Backup {
        /// Written whole or not at all, mode 0600
        file: PathBuf,
    },
    /// Make a data folder of a backup, while no appliance serves from it
    ///
    /// The folder appears whole or not at all. Every client lists anew. What was written after the backup is lost,
    /// but no disk that was installed after it is touched: such a host is frozen until its owner says otherwise.
    Restore {
        file: PathBuf,
        /// Data folder of the appliance
        #[arg(long, value_name = "DIR", env = "FIRESTEEL_DATA")]
        data: PathBuf,
        /// Folder with the private keys, `pki` and `secrets` [default: those in DIR]
        #[arg(long, value_name = "FOLDER", conflicts_with = "new_keys")]
        keys: Option<PathBuf>,
        /// Go on without the private keys: everybody who trusts the old ones must be told, and Secrets are left out
        /// if their key was among them
        #[arg(long)]
        new_keys: bool,
        /// Replace what is in DIR; it is kept under another name
        #[arg(long)]
        force: bool,
    },
    /// Delete an object whose stored value is damaged, unread
    ///
    /// For what no backup brings back. Neither finalizers nor dependents are looked at: what the object stood for (a
    /// host's disks, its power) is not seen to. Nothing is deleted that can be read. Takes the role `admin`.
    DeleteDamaged {
        /// `hosts`, or another kind by its plural or short name
        kind: String,
        name: String,
    },
    /// Who asked the API for what: writes, refusals, reading of secrets, and backups, as lines of JSON
    Audit {
        /// Go on with what comes
        #[arg(long, short)]
        follow: bool,
        /// Only so many of the last lines
        #[arg(long, value_name = "LINES")]
        tail: Option<usize>,
    },
    /// Seal all secrets in the database by a new key, while the appliance serves
    ///
    /// Old states of secrets and free space of the database included: afterwards no byte of it opens with the
    /// old key, which is removed from the key file (--secrets-key). Changes of objects wait meanwhile, some
    /// seconds for a large database; hosts go on booting. Needs free disk space as large as the database. A
    /// backup that was made before needs the key file of that time.
    Rekey,
    /// Put off the deadline of the token with which an installed host fetches its config
    ///
    /// For a host that was switched off between its installation and its first boot for longer than its token is
    /// honoured (`serve --config-token-days`). Nothing is written to the host: the appliance honours the token on its
    /// disk again, from now on for as long as a new one.
    ExtendToken { host: String },
    /// Replace the CA of the appliance's certificates, while it serves
    ///
    /// Begins an overlap in which the old CA and the new one are both good: stubs get both, and clients that know
    /// either of them are served. A rotation begins by itself when the CA is eight years old (`serve --ca-years`). No
    /// clock ends it: who holds the old CA alone is not known here.
    RotateCa {
        /// End the overlap: who trusts the old CA alone is refused from then on
        ///
        /// Not while hosts that were installed before the rotation began have not run yet, for their disks may trust
        /// the old CA alone: they are named.
        #[arg(long)]
        finish: bool,
        /// End it for these hosts, too: they cannot fetch their config any more, and have to be installed anew
        #[arg(long, requires = "finish")]
        force: bool,
        /// Take the last step back: the end of an overlap, or the beginning of one
        #[arg(long, conflicts_with = "finish")]
        undo: bool,
    },
    /// Print a shell's completion script
    Completions { shell: clap_complete::Shell },
}

/// Runs one command.
///
/// # Errors
/// What went wrong, in words for the person who typed the command.
pub async fn run(cli: FiresteelCli) -> anyhow::Result<()> {
    let connection = cli.connection;
    let client = || ApiClient::open(&connection);
    match cli.command {
        CliCommand::Serve(raw) => {
            let print = raw.print_config;
            let settings = raw.check()?;
            if print {
                print_text(&toml::to_string(&settings).context("printing the settings")?);
                return Ok(());
            }
            serve::run(settings).await
        }
        CliCommand::Image(command) => image::run(&connection, command).await,
        CliCommand::Apply { filename } => apply::run(&client()?, &filename).await,
        CliCommand::Get { kind, name, output } => get::run(&client()?, &kind, name.as_deref(), output).await,
        CliCommand::Describe { kind, name, output } => describe::run(&client()?, &kind, &name, output).await,
        CliCommand::Adopt { machine, name } => adopt::run(&client()?, &machine, &name).await,
        CliCommand::Retry { host } => request::retry(&client()?, &host).await,
        CliCommand::AcceptIdentity { host } => request::accept_identity(&client()?, &host).await,
        CliCommand::AcceptErasure { host } => request::accept_erasure(&client()?, &host).await,
        CliCommand::AcceptClock => accept_clock::run(&client()?).await,
        // Without a key it is `--none`.
        CliCommand::ChooseAgent { host, key, .. } => request::choose_agent(&client()?, &host, key.as_deref()).await,
        CliCommand::Reboot { host, hard } => request::reboot(&client()?, &host, hard).await,
        CliCommand::Unfreeze { host, disk } => request::unfreeze(&client()?, &host, &disk).await,
        CliCommand::Release { host, force } => request::release(&client()?, &host, force).await,
        CliCommand::Halt { reason, name } => halt::halt(&client()?, &reason, name.as_deref()).await,
        CliCommand::Resume { name } => halt::resume(&client()?, name.as_deref()).await,
        CliCommand::Plan { host, output } => plan::run(&client()?, &host, output).await,
        CliCommand::Lock { host, reason } => request::lock(&client()?, &host, &reason).await,
        CliCommand::Unlock { host } => request::unlock(&client()?, &host).await,
        CliCommand::Receipt(command) => receipt::run(&connection, command).await,
        CliCommand::Watch { hosts, until } => watch::run(&client()?, &hosts, until.as_deref()).await,
        CliCommand::Kubeconfig(wanted) => kubeconfig::run(&client()?, connection.namespace.as_deref(), wanted).await,
        CliCommand::Backup { file } => backup::fetch(&client()?, &file).await,
        CliCommand::Restore { file, data, keys, new_keys, force } => {
            let keys = match keys {
                Some(folder) => RestoreKeySource::Folder(folder),
                None if new_keys => RestoreKeySource::New,
                None => RestoreKeySource::There,
            };
            // It makes a data folder, with keys that it reads.
            privacy::keep_memory()?;
            privacy::keep_files();
            backup::restore(RestoreOptions { backup: file, data, keys, force, now: jiff::Timestamp::now() })
        }
        CliCommand::DeleteDamaged { kind, name } => delete_damaged::run(&client()?, &kind, &name).await,
        CliCommand::Audit { follow, tail } => audit::run(&client()?, follow, tail).await,
        CliCommand::ExtendToken { host } => extend_token::run(&client()?, &host).await,
        CliCommand::RotateCa { finish, force, undo } => rotate_ca::run(&client()?, (finish, force), undo).await,
        CliCommand::Rekey => rekey::run(&client()?).await,
        CliCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut FiresteelCli::command(), "firesteel", &mut script);
            output::print_bytes(&script);
            Ok(())
        }
    }
}

/// The exit code that an error has: 3 where all went well and something is unverified, else 1.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> std::process::ExitCode {
    if error.is::<receipt::UnverifiedErasures>() { 3.into() } else { std::process::ExitCode::FAILURE }
}
