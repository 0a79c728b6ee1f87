//! One BMC, logged in by IPMI: an [`IpmiEngine`] with a socket, and what callers ask of it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use firesteel_dial::Dialer;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::command::{self, BootDevice, BootFlags, IpmiCommand, completion};
use super::connection::IpmiConnection;
use super::engine::{IpmiEngine, IpmiSessionEvent};
use super::fru::{self, FruIdentity};
use super::sol::{self, Activation, ConsoleData, ConsoleSet};
use super::suite::SessionRandom;
use crate::BmcCredentials;
use crate::client::SystemReport;
use crate::decide::{BmcBootMode, NextBootSource, PowerAction, PowerState};
use crate::error::Error;
use crate::power_outcome::{BootSet, OverrideReading, PowerSent};
use firesteel_facts::bmc_address::{IPMI_PORT, IpmiAddress};

/// Time for the addresses of a name.
const RESOLVED_WITHIN: Duration = Duration::from_secs(10);
/// How often an idle session is looked at; less than the time that keeps it alive.
const LOOK: Duration = Duration::from_secs(5);
/// Bytes of an inventory in one answer; many BMCs have no room for more.
const FRU_READ_BYTES: u8 = 32;
/// Bytes in one answer of a BMC for which even that is too much.
const FRU_READ_BYTES_LESS: u8 = 16;
/// Requests for one inventory, so that a BMC that gives a byte at a time does not take minutes.
const FRU_READS_MAX: usize = 2 * fru::BYTES_MAX / FRU_READ_BYTES_LESS as usize;

/// The driver's name, and its one way in.
#[derive(Clone, Copy, Debug)]
pub struct Ipmi;

/// A session with a BMC. Requests of all callers go one at a time.
#[derive(Debug)]
pub struct IpmiClient {
    line: Arc<Mutex<IpmiConnection>>,
    /// Keeps the session alive while it is idle.
    keeper: JoinHandle<()>,
}

impl Ipmi {
    /// Opens a session with the privilege that the address asks for.
    ///
    /// A name is resolved once, and the first of its addresses that may be dialled is asked. This takes 15 s if there
    /// is no answer, and longer only if a BMC stops answering in between.
    ///
    /// # Errors
    /// No answer, another version, an unknown login, or no session free.
    pub async fn connect(
        dialer: &Dialer,
        address: &IpmiAddress,
        credentials: &BmcCredentials,
    ) -> Result<IpmiClient, Error> {
        let socket = dialer.connect_datagrams(address.host(), address.port(), RESOLVED_WITHIN).await?;
        let start = Instant::now();
        let mut seed = [0; 32];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_| Error::Unreachable { detail: "the system gives no random numbers".to_owned() })?;
        let random = SessionRandom::from_seed(&seed);
        let engine = IpmiEngine::new(credentials, address.privilege(), random, start.elapsed())?;
        let mut line = IpmiConnection::new(socket, engine, start);
        let opened = match line.next_event().await {
            IpmiSessionEvent::Opened => Ok(()),
            IpmiSessionEvent::Failed(error) => Err(error),
            IpmiSessionEvent::Answered(_) | IpmiSessionEvent::Closed => {
                Err(Error::Timeout { what: "the login".to_owned() })
            }
        };
        if let Err(error) = opened {
            line.close().await;
            tracing::debug!(bmc = %address, %error, "IPMI session not opened");
            return Err(line.mask_error(error));
        }
        tracing::debug!(bmc = %address, "IPMI session opened");
        let line = Arc::new(Mutex::new(line));
        let keeper = tokio::spawn(keep(Arc::downgrade(&line)));
        Ok(IpmiClient { line, keeper })
    }
}

async fn keep(line: Weak<Mutex<IpmiConnection>>) {
    loop {
        sleep(LOOK).await;
        let Some(line) = line.upgrade() else { return };
        // Its holder sends a request, which keeps the session alive as well.
        if let Ok(mut line) = line.try_lock() {
            line.keep_alive().await;
        }
    }
}

impl IpmiClient {
    async fn ask(&self, request: &IpmiCommand) -> Result<Vec<u8>, Error> {
        self.line.lock().await.ask(request).await
    }

    pub async fn power(&self) -> Result<PowerState, Error> {
        let request = command::chassis_status();
        let data = self.ask(&request).await?;
        command::power(&data).ok_or_else(|| too_short(&request))
    }

    /// Is idempotent but for [`PowerAction::ForceRestart`].
    pub async fn set_power(&self, action: PowerAction) -> Result<PowerSent, Error> {
        let state = self.power().await?;
        let mut failure = None;
        for control in command::controls(action, state) {
            match self.ask(&command::chassis_control(*control)).await {
                Ok(_) => return Ok(PowerSent::Sent),
                // Not this one; there may be another.
                Err(error @ (Error::Unsupported { .. } | Error::Refused { .. })) => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        match failure {
            None => Ok(PowerSent::Nothing),
            // Another client was faster.
            Some(_) if action.is_reached(self.power().await?) => Ok(PowerSent::Nothing),
            Some(error) => Err(error),
        }
    }

    /// The next boot from `target`, and from then on as before; read back afterwards. IPMI has no
    /// way to leave the firmware's mode alone: one of the two goes with it.
    pub async fn set_boot_once(&self, target: NextBootSource, mode: BmcBootMode) -> Result<BootSet, Error> {
        let device = BootDevice::of(target)
            .ok_or_else(|| Error::Unsupported { what: format!("boot from {} by IPMI", target.as_str()) })?;
        self.set_boot(BootFlags::new(device, false, mode)).await
    }

    /// Sets boot flags, and reads them back.
    pub async fn set_boot(&self, flags: BootFlags) -> Result<BootSet, Error> {
        for (request, is_needed) in command::set_boot(flags) {
            match self.ask(&request).await {
                Ok(_) => {}
                Err(error @ (Error::Unsupported { .. } | Error::Refused { .. })) if !is_needed => {
                    tracing::debug!(%error, "a boot option that not every BMC has");
                }
                Err(Error::Unsupported { what }) => {
                    return Ok(BootSet::NotOffered { why: format!("it cannot {what}") });
                }
                Err(error) => return Err(error),
            }
        }
        let seen = match optional(self.boot_flags().await)? {
            Some(seen) if seen.supports(flags) => return Ok(BootSet::Confirmed),
            Some(seen) => seen.to_string(),
            None => "nothing: its boot flags cannot be read".to_owned(),
        };
        Ok(BootSet::Unverified { seen })
    }

    /// Reads whether the boot that flags were set for has used them up. Changes nothing.
    ///
    /// # Errors
    /// What keeps the BMC from being asked.
    pub async fn read_once(&self) -> Result<OverrideReading, Error> {
        Ok(match optional(self.boot_flags().await)? {
            Some(flags) if flags.is_valid => OverrideReading::Left { seen: flags.to_string() },
            Some(_) if self.keeps_flags().await? => OverrideReading::UsedUp,
            Some(_) => {
                OverrideReading::Unconfirmed { why: "it may clear boot flags by itself after a minute".to_owned() }
            }
            None => OverrideReading::Unconfirmed { why: "its boot flags cannot be read".to_owned() },
        })
    }

    async fn keeps_flags(&self) -> Result<bool, Error> {
        let life = optional(self.ask(&command::boot_flags_life()).await)?;
        Ok(life.is_some_and(|data| command::are_flags_kept(&data)))
    }

    async fn boot_flags(&self) -> Result<BootFlags, Error> {
        let request = command::boot_flags();
        let data = self.ask(&request).await?;
        BootFlags::read(&data).ok_or_else(|| too_short(&request))
    }

    /// Listens to the host's serial port from now on.
    ///
    /// # Errors
    /// What keeps the BMC from saying whether it has one: it may be another time.
    pub async fn open_console(&self) -> Result<ConsoleSet, Error> {
        let mut line = self.line.lock().await;
        let request = command::activate_console();
        let reply = line.exchange(&request).await?;
        let port = match sol::activation(&reply) {
            Activation::At(port) => port,
            Activation::Not(set) => return Ok(set),
            Activation::Unclear => {
                reply.accepted(request.what)?;
                return Err(too_short(&request));
            }
        };
        let own = line.socket.peer_addr().map_or(port, |peer| peer.port());
        // Some BMCs turn its bytes round, and one behind a gateway knows its own only.
        if [own, own.swap_bytes(), IPMI_PORT, IPMI_PORT.swap_bytes()].contains(&port) {
            line.engine.listen();
            return Ok(ConsoleSet::Listening);
        }
        optional(line.ask(&command::deactivate_console()).await)?;
        Ok(ConsoleSet::NotOffered { why: format!("the BMC speaks at port {port} and not where it was asked") })
    }

    /// What the serial port says, as soon as it says anything, or nothing after `patience`. `None` when it has
    /// ended. May be given up at any time: the next call returns what this one did not.
    pub async fn receive_console_data(&self, patience: Duration) -> Option<ConsoleData> {
        self.line.lock().await.receive_console_data(patience).await
    }

    /// Everything that is known of the system. Many requests; for polling use [`IpmiClient::power`].
    pub async fn identify(&self) -> Result<SystemReport, Error> {
        let power = self.power().await?;
        let flags = optional(self.boot_flags().await)?;
        let guid = optional(self.ask(&command::system_guid()).await)?;
        let FruIdentity { manufacturer, model, serial, part: _ } = optional(self.identity().await)?.unwrap_or_default();
        Ok(SystemReport {
            system: "chassis".to_owned(),
            power,
            manufacturer,
            model,
            serial,
            uuid: guid.and_then(|guid| command::guid_text(&guid)),
            boot_target: flags.map(|flags| flags.device.as_str().to_owned()),
            boot_enabled: flags.map(|flags| flags.enabled().to_owned()),
            boot_mode: flags.filter(|flags| flags.is_valid).map(|flags| flags.mode),
            // Of the host's interfaces IPMI knows nothing; the address of the BMC's own is not theirs.
            macs: Vec::new(),
            resets_allowed: Vec::new(),
            boot_targets_allowed: Vec::new(),
        })
    }

    async fn identity(&self) -> Result<FruIdentity, Error> {
        let request = command::fru_area();
        let data = self.ask(&request).await?;
        let size = command::fru_size(&data).ok_or_else(|| Error::Unsupported { what: "read its FRU".to_owned() })?;
        let mut inventory = self.read_fru(Vec::new(), size.min(8)).await?;
        if let Some(header) = inventory.first_chunk::<8>() {
            let wanted = fru::bytes_wanted(header, size);
            inventory = self.read_fru(inventory, wanted).await?;
        }
        Ok(fru::identity(&inventory))
    }

    /// What follows `inventory`, up to so many bytes in all, or what the BMC has of them.
    async fn read_fru(&self, mut inventory: Vec<u8>, wanted: usize) -> Result<Vec<u8>, Error> {
        let mut most = FRU_READ_BYTES;
        for _ in 0..FRU_READS_MAX {
            if inventory.len() >= wanted {
                break;
            }
            let left = u8::try_from(wanted - inventory.len()).unwrap_or(u8::MAX);
            let offset = u16::try_from(inventory.len()).unwrap_or(u16::MAX);
            let request = command::read_fru(offset, left.min(most));
            let data = match self.ask(&request).await {
                Ok(data) => data,
                Err(Error::Refused { status, .. }) if most > FRU_READ_BYTES_LESS && is_length(status) => {
                    most = FRU_READ_BYTES_LESS;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some((&count, bytes)) = data.split_first() else { return Err(too_short(&request)) };
            let bytes = &bytes[..bytes.len().min(count.into()).min(left.min(most).into())];
            if bytes.is_empty() {
                break;
            }
            inventory.extend(bytes);
        }
        Ok(inventory)
    }

    /// Ends the session. Without it the BMC ends it by itself after a minute, and it has few.
    pub async fn close(self) {
        self.keeper.abort();
        self.line.lock().await.close().await;
    }
}

impl Drop for IpmiClient {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

fn is_length(status: u16) -> bool {
    [completion::LENGTH_INVALID, completion::LENGTH_EXCEEDED, completion::CANNOT_RETURN_SO_MUCH, 0xff]
        .iter()
        .any(|code| u16::from(*code) == status)
}

fn too_short(request: &IpmiCommand) -> Error {
    Error::BadAnswer { what: request.what.to_owned(), detail: "it is too short".to_owned() }
}

/// What a BMC need not have; that it cannot be asked at all is an error all the same.
fn optional<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Unsupported { .. } | Error::Refused { .. } | Error::Forbidden { .. } | Error::BadAnswer { .. }) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
