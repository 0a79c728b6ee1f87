//! The command line: one process to serve, the same binary to talk to it.

mod accept_clock;
mod adopt;
mod answer;
mod apply;
mod audit;
mod backup;
mod client;
mod completion;
mod confirm;
mod delete;
mod delete_damaged;
mod describe;
mod diff;
mod durations;
mod events;
mod explain;
mod extend_token;
mod follow;
mod foreign_verbs;
mod format;
mod get;
#[cfg(test)]
mod golden;
mod halt;
mod host_departure;
mod host_wait;
mod image;
mod jsonpath;
mod kinds;
mod kubeconfig;
mod kubeconfig_file;
mod logs;
mod manifests;
mod object_words;
mod output;
mod plan;
mod receipt;
mod rekey;
mod release;
mod request;
mod rotate_ca;
mod support_bundle;
mod table;
mod unowned_machines;
mod usage;
mod verbs;
mod version;
mod visible;
mod wait;
mod watch;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};

use firesteel_appliance::backup::{RestoreKeySource, RestoreOptions};
use firesteel_appliance::privacy;
use firesteel_appliance::serve::settings::{MissingSetting, RawSettings};
use firesteel_appliance::serve::{self};

pub use client::ApiClient;
pub use describe::render as describe_page;
pub use foreign_verbs::parse;
pub use format::OutputFormat;
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
    /// Kubeconfig with the appliance's address, CA and login
    ///
    /// The first of these counts: this flag, FIRESTEEL_KUBECONFIG, `admin.kubeconfig` in the folder that FIRESTEEL_DATA
    /// names, KUBECONFIG, and `~/.kube/config`.
    #[arg(long, global = true, value_name = "FILE", env = "FIRESTEEL_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of hosts and secrets [default: the kubeconfig's, or "default"]
    #[arg(long, short, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Run the appliance
    Serve(Box<RawSettings>),
    /// Bring OS images into the appliance's store and out of it, or list them
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Make the objects of YAML or JSON files what the files say (server-side apply)
    ///
    /// An object that does not exist is created. A field that the file named before and does not name now goes, unless
    /// another manager owns it: without `image`, a host is deprovisioned. An object with a field that its kind does not
    /// have is refused. All objects are tried; if one is refused, the exit code is 1.
    Apply(apply::ApplyOptions),
    /// Show what `firesteel apply` with the same files would change; nothing is changed
    ///
    /// The exit code is 0 if nothing would change, 1 if something would, and 2 if that could not be found out.
    Diff(diff::DiffOptions),
    #[command(flatten)]
    Verb(verbs::ApiVerb),
    /// Turn a discovered machine into a host
    Adopt {
        /// MAC or SMBIOS UUID as `get hosts` shows it
        machine: String,
        /// Name of the new host
        #[arg(long)]
        name: String,
        /// Adopt it although the BMC of a host drives this machine: it becomes a second host
        #[arg(long)]
        force: bool,
    },
    /// Forget a host's error and try again now
    Retry(answer::HostRequestOptions),
    /// Accept the machine that was refused for a host: its board or firmware was changed
    AcceptIdentity(answer::HostRequestOptions),
    /// Accept the unverified erasure that holds a host, and let the host go on
    AcceptErasure(answer::HostRequestOptions),
    /// Confirm that the appliance's clock is right, although its store has newer times
    ///
    /// While the clock is more than an hour behind the newest time in the store, no disk of any host is changed: the
    /// clock may have been set back. Use this command if the clock was ahead before and is right now.
    AcceptClock,
    /// Choose which of several machines that claim to be a host is the host, or reject all of them
    ///
    /// While more than one machine claims to be a host, none of its disks is changed. `firesteel describe host HOST`
    /// shows each with its key, MAC and address. If you choose none, the attempt ends by itself after a day.
    ChooseAgent(request::ChooseAgentOptions),
    /// Restart a host through its BMC
    Reboot(request::RebootOptions),
    /// Let a frozen host go on: the named installation may be overwritten
    ///
    /// A host is frozen while a disk of it was installed after the backup that the store was restored from, or by
    /// another appliance, or could not be read. `firesteel describe host HOST` shows which disk it is, and its name
    /// here.
    Unfreeze(request::UnfreezeOptions),
    /// Clean a host and delete it
    Release(release::ReleaseOptions),
    /// Stop the whole fleet: no disk of any host is changed until `firesteel resume`
    ///
    /// No destructive step begins, and those under way stop at their next safe point. All else goes on: hosts are
    /// inspected, switched on and off, and run. Each host that waits shows who stopped the fleet, and why.
    Halt(halt::HaltOptions),
    /// End a halt of the fleet
    Resume(halt::ResumeOptions),
    /// Show what the next installation and the next cleaning would do to each disk of a host; nothing is done
    Plan {
        #[arg(value_parser = kinds::host_name)]
        host: String,
        /// table, yaml, json or jsonpath=TEMPLATE
        #[arg(long, short, value_name = "FORMAT", value_parser = OutputFormat::of_page, default_value = "table")]
        output: OutputFormat,
    },
    /// Protect all disks of a host from being cleaned or written; work under way stops at a safe point
    Lock {
        #[arg(value_parser = kinds::host_name)]
        host: String,
        /// Who locks the host, and why; shown in its status
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Let the disks of a host be cleaned and written again
    Unlock(request::UnlockOptions),
    /// List, export and verify signed evidence of what was done to disks
    #[command(subcommand)]
    Receipt(receipt::ReceiptCommand),
    /// Show hosts and follow their progress
    ///
    /// Failing hosts come first, then those that are worked on. In a terminal the view takes the whole screen, and
    /// Ctrl-C ends it. Elsewhere each change is a line with its date, time and zone.
    ///
    /// With --until the exit code is 0 when all hosts shown are in the state. It is 1 when the time is over, a named
    /// host is released, or a host needs a person. Without it the watch ends when all named hosts are released.
    Watch(watch::WatchOptions),
    /// Give a user a role and a kubeconfig, or revoke both
    Kubeconfig(kubeconfig::KubeconfigOptions),
    /// Fetch all objects of the appliance, as of one moment, into a file
    ///
    /// Private keys are not in it: copy the folders `pki` and `secrets` of the data folder, and the key that seals
    /// Secrets, to another place. Copy them again after `firesteel rekey` or a rotation of the CA: later backups need
    /// the new keys. Images are not in it either: hosts name where they come from.
    Backup {
        /// File to write, whole or not at all, with mode 0600
        file: PathBuf,
    },
    /// Make a data folder from a backup, while no appliance runs on it
    ///
    /// The folder appears whole or not at all. Every client lists its objects again. Changes after the backup are lost,
    /// but no disk that was installed after it is touched: such a host is frozen until `firesteel unfreeze`.
    Restore {
        file: PathBuf,
        /// Data folder of the appliance
        #[arg(long, value_name = "DIR", env = "FIRESTEEL_DATA")]
        data: PathBuf,
        /// Folder with the private keys, `pki` and `secrets` [default: those in DIR]
        #[arg(long, value_name = "FOLDER", conflicts_with = "new_keys")]
        keys: Option<PathBuf>,
        /// Make new private keys: everyone who trusts the old ones must get the new ones, and Secrets are lost if
        /// their key was among the old ones
        #[arg(long)]
        new_keys: bool,
        /// Replace what is in DIR; it is kept under another name
        #[arg(long)]
        force: bool,
        /// Do not ask before the folder is replaced: go on at once, as scripts must
        #[arg(long, short, requires = "force")]
        yes: bool,
    },
    /// Delete an object whose stored value is damaged, without reading it
    ///
    /// Use this if no backup has the object. Finalizers and dependents are ignored: what the object stood for (a host's
    /// disks, its power) is left as it is. An object that can be read is not deleted. This takes the role `admin`.
    DeleteDamaged {
        /// `hosts`, or another kind by its plural or short name
        kind: String,
        name: String,
    },
    /// Print the audit log: writes, refusals, reads of secrets, and backups, as lines of JSON
    Audit {
        /// Go on and print new records
        #[arg(long, short)]
        follow: bool,
        /// Print only this many of the last lines
        #[arg(long, value_name = "LINES")]
        tail: Option<usize>,
    },
    /// Collect what explains the state of the appliance into one file, without secrets
    ///
    /// The file has settings, objects, logs, metrics and versions, as far as you may read them. What is secret is removed:
    /// by the type of its object, by its form, and by its value, however that is encoded. `redactions.json` in the file
    /// lists what was removed, and `manifest.json` what is missing. The exit code is 3 if something is missing.
    SupportBundle(support_bundle::BundleArguments),
    /// Seal all secrets in the database with a new key, while the appliance serves
    ///
    /// This includes old states of secrets and the free space of the database: afterwards the old key opens no byte of
    /// it, and is removed from the key file (--secrets-key). Changes of objects wait meanwhile, some seconds for a
    /// large database; hosts go on booting. It needs as much free disk space as the database has. An earlier backup
    /// needs the key file of its time.
    Rekey,
    /// Extend the deadline of the token with which an installed host fetches its config
    ///
    /// Use this for a host that was off for longer than its token is valid (`serve --config-token-days`), between its
    /// installation and its first boot. Nothing is written to the host: the appliance accepts the token on its disk
    /// again, from now on for as long as a new one.
    ExtendToken(answer::HostRequestOptions),
    /// Replace the CA of the appliance's certificates, while it serves
    ///
    /// This begins an overlap in which the old and the new CA are both valid: stubs get both, and clients that trust
    /// either of them are served. A rotation begins by itself when the CA is eight years old (`serve --ca-years`), but
    /// never ends by itself: the appliance does not know who trusts the old CA alone.
    RotateCa(rotate_ca::RotateCaOptions),
    /// Print a shell's completion script, which completes names of hosts and other objects, too
    Completions { shell: clap_complete::Shell },
    /// Print what the word at the end of a command line may become
    #[command(name = completion::COMMAND, hide = true)]
    Complete(completion::CompleteOptions),
}

/// Runs one command.
///
/// # Errors
/// The error says what went wrong, for the person who typed the command.
pub async fn run(cli: FiresteelCli) -> anyhow::Result<()> {
    let connection = cli.connection;
    let client = || ApiClient::open(&connection);
    match cli.command {
        CliCommand::Serve(raw) => {
            let print = raw.print_config;
            let settings = raw.check()?;
            if print {
                print_text(&toml::to_string(&settings).context("could not print the settings")?);
                return Ok(());
            }
            serve::run(settings).await
        }
        CliCommand::Image(command) => image::run(&connection, command).await,
        CliCommand::Apply(options) => apply::run(&connection, &options).await,
        CliCommand::Diff(options) => diff::run(&connection, &options).await,
        CliCommand::Verb(verb) => verbs::run(&connection, verb).await,
        CliCommand::Adopt { machine, name, force } => adopt::run(&client()?, &machine, &name, force).await,
        CliCommand::Retry(options) => request::retry(&client()?, &options).await,
        CliCommand::AcceptIdentity(options) => request::accept_identity(&client()?, &options).await,
        CliCommand::AcceptErasure(options) => request::accept_erasure(&client()?, &options).await,
        CliCommand::AcceptClock => accept_clock::run(&client()?).await,
        CliCommand::ChooseAgent(options) => request::choose_agent(&client()?, &options).await,
        CliCommand::Reboot(options) => request::reboot(&client()?, &options).await,
        CliCommand::Unfreeze(options) => request::unfreeze(&client()?, &options).await,
        CliCommand::Release(options) => release::run(&client()?, &options).await,
        CliCommand::Halt(options) => halt::halt(&client()?, &options).await,
        CliCommand::Resume(options) => halt::resume(&client()?, &options).await,
        CliCommand::Plan { host, output } => plan::run(&client()?, &host, &output).await,
        CliCommand::Lock { host, reason } => request::lock(&client()?, &host, &reason).await,
        CliCommand::Unlock(options) => request::unlock(&client()?, &options).await,
        CliCommand::Receipt(command) => receipt::run(&connection, command).await,
        CliCommand::Watch(options) => watch::run(&connection, options).await,
        CliCommand::Kubeconfig(wanted) => kubeconfig::run(&client()?, connection.namespace.as_deref(), wanted).await,
        CliCommand::Backup { file } => backup::fetch(&client()?, &file).await,
        CliCommand::Restore { file, data, keys, new_keys, force, yes } => {
            let keys = match keys {
                Some(folder) => RestoreKeySource::Folder(folder),
                None if new_keys => RestoreKeySource::New,
                None => RestoreKeySource::There,
            };
            // The restore reads private keys and writes a data folder.
            privacy::keep_memory()?;
            privacy::keep_files();
            let order = RestoreOptions { backup: file, data, keys, force, now: jiff::Timestamp::now() };
            backup::restore(order, confirm::ConfirmOptions { yes })
        }
        CliCommand::DeleteDamaged { kind, name } => delete_damaged::run(&client()?, &kind, &name).await,
        CliCommand::Audit { follow, tail } => audit::run(&client()?, follow, tail).await,
        CliCommand::SupportBundle(options) => support_bundle::run(&connection, &options).await,
        CliCommand::ExtendToken(options) => extend_token::run(&client()?, &options).await,
        CliCommand::RotateCa(options) => rotate_ca::run(&client()?, options).await,
        CliCommand::Rekey => rekey::run(&client()?).await,
        CliCommand::Completions { shell } => {
            print_text(&completion::script(shell));
            Ok(())
        }
        CliCommand::Complete(options) => completion::run(&connection, options).await,
    }
}

/// The exit code of an error: 3 if all went well and something is unverified or missing, 2 if the command was typed
/// wrong, a question could not be asked or `firesteel diff` could not compare, else 1.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> std::process::ExitCode {
    if error.is::<receipt::UnverifiedErasures>() || error.is::<support_bundle::IncompleteBundle>() {
        3.into()
    } else if error.is::<usage::UsageError>()
        || error.is::<MissingSetting>()
        || error.is::<confirm::ConfirmationMissing>()
        || error.is::<diff::ComparisonError>()
    {
        2.into()
    } else {
        std::process::ExitCode::FAILURE
    }
}
