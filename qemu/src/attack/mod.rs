//! A second machine on the provisioning network that means no good: floods of DHCP, TFTP and HTTP, the theft of a host's
//! MAC with replays of its tokens, and of its MAC and address while it is released, and a hello with its token. A process
//! of its own (`lab attack`, not shown in the help) in a network namespace of its own, on a wire to the lab's bridge, with
//! addresses from the same subnet; to the appliance it is any other machine.
//!
//! It attacks from a line on its standard input to the end of the input, and then prints a [`Tally`].

mod claim;
mod dhcp;
pub(crate) mod dhcp_watch;
mod http;
pub(crate) mod listen;
mod packets;
mod tftp;

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::net::{APPLIANCE_ADDRESS, LabBridge};
use crate::{os, sandbox};

/// The attacker's end of the wire.
const DEVICE: &str = "atk0";
/// Its addresses, outside the range that DHCP gives out: with what one address may have, enough for
/// every place that the appliance has.
const ADDRESSES: [Ipv4Addr; 20] = {
    let mut addresses = [Ipv4Addr::UNSPECIFIED; 20];
    let mut index = 0;
    while index < addresses.len() {
        #[expect(clippy::cast_possible_truncation, reason = "below 20")]
        let number = index as u8;
        addresses[index] = Ipv4Addr::new(10, 77, 0, 221 + number);
        index += 1;
    }
    addresses
};
const BOOT_PORT: u16 = 8080;
const AGENT_PORT: u16 = 8443;
/// It has to count together what its tasks did.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// One new MAC after the other takes an address, until none is left.
    DhcpStarvation,
    /// Reads that are never acknowledged, with options at their limits and beyond.
    TftpFlood,
    /// Connections that send their request a byte at a time, or nothing at all.
    SlowHeads,
    /// Connections that ask for a large file and do not take it.
    SlowReaders,
    /// Requests with a thousand ranges, and many with one.
    Ranges,
    /// Scripts and tokens of a host, asked for in its name; old tokens again and again.
    MacTheft,
    /// A host's script, asked for with its MAC and from its address all the time, as the system of its last owner would.
    /// What is found is counted and not used.
    ScriptTheft,
    /// Says hello with a token that was read on the wire and a key of its own, again and again.
    SecondKey,
}

#[derive(Clone, Debug, Args)]
pub struct AttackOptions {
    #[arg(value_enum, required = true)]
    pub kinds: Vec<Attack>,
    /// MAC of the host to rob
    #[arg(long, default_value = "52:54:00:77:01:01")]
    pub victim: String,
    #[command(flatten)]
    pub loot: AttackerSecrets,
}

/// What the attacker has before it begins.
#[derive(Clone, Debug, Default, Args)]
pub struct AttackerSecrets {
    /// Be at this address, with the MAC of that host, and at no other one
    #[arg(long)]
    pub address: Option<Ipv4Addr>,
    /// A token of that host, read on the wire
    #[arg(long)]
    pub token: Option<String>,
    /// File with the CA of the appliance, in PEM
    #[arg(long)]
    pub ca: Option<PathBuf>,
}

/// What was done, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    discovers: AtomicU64,
    acks: AtomicU64,
    reads: AtomicU64,
    tftp_bytes_sent: AtomicU64,
    tftp_bytes_got: AtomicU64,
    connections: AtomicU64,
    connections_refused: AtomicU64,
    range_requests: AtomicU64,
    scripts: AtomicU64,
    waits: AtomicU64,
    tokens: AtomicU64,
    first_token_ms: AtomicU64,
    hellos_taken: AtomicU64,
    hellos_held: AtomicU64,
    hellos_refused: AtomicU64,
    replays: AtomicU64,
    replays_answered: AtomicU64,
}

/// [`Counters`] at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub discovers: u64,
    pub acks: u64,
    pub reads: u64,
    pub tftp_bytes_sent: u64,
    pub tftp_bytes_got: u64,
    pub connections: u64,
    pub connections_refused: u64,
    pub range_requests: u64,
    pub scripts: u64,
    /// Scripts that only wait and ask again.
    pub waits: u64,
    /// Scripts with a token.
    pub tokens: u64,
    /// When the first of them came, in Unix milliseconds; zero without one.
    pub first_token_ms: u64,
    /// Hellos in the host's name, by what they were answered.
    pub hellos_taken: u64,
    pub hellos_held: u64,
    pub hellos_refused: u64,
    pub replays: u64,
    pub replays_answered: u64,
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Counters {
    fn tally(&self) -> Tally {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            discovers: of(&self.discovers),
            acks: of(&self.acks),
            reads: of(&self.reads),
            tftp_bytes_sent: of(&self.tftp_bytes_sent),
            tftp_bytes_got: of(&self.tftp_bytes_got),
            connections: of(&self.connections),
            connections_refused: of(&self.connections_refused),
            range_requests: of(&self.range_requests),
            scripts: of(&self.scripts),
            waits: of(&self.waits),
            tokens: of(&self.tokens),
            first_token_ms: of(&self.first_token_ms),
            hellos_taken: of(&self.hellos_taken),
            hellos_held: of(&self.hellos_held),
            hellos_refused: of(&self.hellos_refused),
            replays: of(&self.replays),
            replays_answered: of(&self.replays_answered),
        }
    }
}

/// The lab's end: a running attacker, which ends when this is dropped.
#[derive(Debug)]
pub struct Attacker {
    child: Child,
}

impl Attacker {
    /// Wires the machine up and lets it begin: with addresses of its own, or with the victim's MAC at a stolen one.
    pub async fn start(
        network: &LabBridge,
        kinds: &[Attack],
        victim: &str,
        loot: &AttackerSecrets,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(sandbox::SELF);
        command.arg("attack");
        for kind in kinds {
            command.arg(clap::ValueEnum::to_possible_value(kind).map_or_else(String::new, |v| v.get_name().to_owned()));
        }
        command.args(["--victim", victim]);
        if let Some(address) = loot.address {
            command.arg("--address").arg(address.to_string());
        }
        if let Some(token) = &loot.token {
            command.arg("--token").arg(token);
        }
        if let Some(ca) = &loot.ca {
            command.arg("--ca").arg(ca);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        os::die_with_parent(command.as_std_mut(), Signal::SIGKILL);
        os::own_network(command.as_std_mut());
        let mut child = command.spawn().context("starting the attacker")?;
        let pid = child.id().context("the attacker ended at once")?;
        network.add_wire("atkbr", DEVICE, pid).await.context("wiring the attacker up")?;
        let input = child.stdin.as_mut().context("the attacker has no input")?;
        input.write_all(b"go\n").await.context("telling the attacker to begin")?;
        Ok(Self { child })
    }

    /// Ends the attack and tells what came of it.
    pub async fn stop(mut self) -> anyhow::Result<Tally> {
        drop(self.child.stdin.take());
        let mut output = String::new();
        if let Some(stdout) = self.child.stdout.as_mut() {
            tokio::time::timeout(STOP_TIMEOUT, stdout.read_to_string(&mut output))
                .await
                .context("the attacker does not end")?
                .context("listening to the attacker")?;
        }
        serde_json::from_str(&output).with_context(|| format!("the attacker said {output:?}"))
    }
}

/// What the attacker's tasks share.
#[derive(Clone, Debug)]
pub(crate) struct AttackContext {
    counters: Arc<Counters>,
    victim: String,
    loot: AttackerSecrets,
}

impl AttackContext {
    /// The address that it has taken, or one of its own by turns.
    fn address(&self, number: u64) -> Ipv4Addr {
        self.loot.address.unwrap_or_else(|| address(number))
    }
}

/// The other end: `lab attack`.
pub async fn run(options: AttackOptions) -> anyhow::Result<()> {
    // The wire is there when this line is.
    tokio::task::spawn_blocking(next_line).await?.context("waiting for the wire")?;
    configure(&options).await?;
    let scene = AttackContext { counters: Arc::default(), victim: options.victim, loot: options.loot };
    let mut tasks = JoinSet::new();
    for kind in options.kinds {
        let scene = scene.clone();
        match kind {
            Attack::DhcpStarvation => drop(tasks.spawn(dhcp::starve(scene))),
            Attack::TftpFlood => drop(tasks.spawn(tftp::flood(scene))),
            Attack::SlowHeads => drop(tasks.spawn(http::slow_heads(scene))),
            Attack::SlowReaders => drop(tasks.spawn(http::slow_readers(scene))),
            Attack::Ranges => drop(tasks.spawn(http::ranges(scene))),
            Attack::MacTheft => drop(tasks.spawn(http::mac_theft(scene))),
            Attack::ScriptTheft => drop(tasks.spawn(http::script_theft(scene))),
            Attack::SecondKey => drop(tasks.spawn(claim::second_key(scene))),
        }
    }
    let mut end = tokio::task::spawn_blocking(next_line);
    loop {
        tokio::select! {
            read = &mut end => {
                read?.context("waiting for the end")?;
                break;
            }
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                ended.context("attacking")?.context("attacking")?;
            }
        }
    }
    let tally = scene.counters.tally();
    crate::progress::print(&serde_json::to_string(&tally).context("telling what came of it")?);
    Ok(())
}

/// The next line of the input, or its end.
fn next_line() -> io::Result<usize> {
    io::stdin().read_line(&mut String::new())
}

async fn configure(options: &AttackOptions) -> anyhow::Result<()> {
    let (mac, addresses) = match options.loot.address {
        Some(address) => (Some(format!("link set {DEVICE} address {}", options.victim)), vec![address]),
        None => (None, ADDRESSES.to_vec()),
    };
    let up = format!("link set {DEVICE} up");
    let addresses = addresses.iter().map(|address| format!("addr add {address}/24 dev {DEVICE}"));
    for command in mac.into_iter().chain([up]).chain(addresses) {
        let status = Command::new("ip").args(command.split(' ')).status().await.context("running ip")?;
        anyhow::ensure!(status.success(), "ip {command} failed");
    }
    Ok(())
}

/// One of the attacker's addresses, by turns.
pub(crate) fn address(number: u64) -> Ipv4Addr {
    ADDRESSES[usize::try_from(number).unwrap_or(0) % ADDRESSES.len()]
}

pub(crate) fn appliance(port: u16) -> (Ipv4Addr, u16) {
    (APPLIANCE_ADDRESS, port)
}

/// A connection or socket that fails is what the appliance's bounds are for.
pub(crate) fn ignore(_: io::Error) {}
