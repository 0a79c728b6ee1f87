//! What a BMC is asked, what its answers mean, and completion codes in words.

use firesteel_facts::{Guid, bmc_address::Privilege};

use super::packet::payload;
use crate::decide::{BmcBootMode, NextBootSource, PowerAction, PowerState};
use crate::error::Error;

const CHASSIS: u8 = 0x00;
const APP: u8 = 0x06;
const STORAGE: u8 = 0x0a;
/// An answer's function is its request's and this.
pub const ANSWER: u8 = 1;

/// A request without what ties it to its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpmiCommand {
    /// A noun, for people.
    pub what: &'static str,
    pub function: u8,
    pub command: u8,
    pub data: Vec<u8>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpmiReply {
    pub completion: u8,
    pub data: Vec<u8>,
}

pub mod number {
    pub const CHASSIS_STATUS: u8 = 0x01;
    pub const CHASSIS_CONTROL: u8 = 0x02;
    pub const SET_BOOT_OPTIONS: u8 = 0x08;
    pub const GET_BOOT_OPTIONS: u8 = 0x09;
    pub const DEVICE_ID: u8 = 0x01;
    pub const SYSTEM_GUID: u8 = 0x37;
    pub const AUTHENTICATION_CAPABILITIES: u8 = 0x38;
    pub const SET_PRIVILEGE: u8 = 0x3b;
    pub const CLOSE_SESSION: u8 = 0x3c;
    pub const ACTIVATE_PAYLOAD: u8 = 0x48;
    pub const DEACTIVATE_PAYLOAD: u8 = 0x49;
    pub const FRU_AREA: u8 = 0x10;
    pub const READ_FRU: u8 = 0x11;
}

pub mod completion {
    pub const DONE: u8 = 0x00;
    pub const NODE_BUSY: u8 = 0xc0;
    pub const INVALID_COMMAND: u8 = 0xc1;
    pub const LENGTH_INVALID: u8 = 0xc7;
    pub const LENGTH_EXCEEDED: u8 = 0xc8;
    pub const CANNOT_RETURN_SO_MUCH: u8 = 0xca;
    pub const INVALID_FIELD: u8 = 0xcc;
}

fn request(what: &'static str, function: u8, command: u8, data: &[u8]) -> IpmiCommand {
    IpmiCommand { what, function, command, data: data.to_vec() }
}

/// Asks for the authentication of the channel that the request comes by. Bit 80 asks for the fields of version 2.0.
#[must_use]
pub fn authentication_capabilities(privilege: Privilege) -> IpmiCommand {
    request("its ways of authentication", APP, number::AUTHENTICATION_CAPABILITIES, &[0x8e, privilege.level()])
}

#[must_use]
pub fn set_privilege(privilege: Privilege) -> IpmiCommand {
    request("the privilege level", APP, number::SET_PRIVILEGE, &[privilege.level()])
}

#[must_use]
pub fn close_session(session: u32) -> IpmiCommand {
    request("the end of the session", APP, number::CLOSE_SESSION, &session.to_le_bytes())
}

/// The first instance of SOL, encrypted and authenticated; alerts are not held back (table 24-2).
#[must_use]
pub fn activate_console() -> IpmiCommand {
    request("the serial console", APP, number::ACTIVATE_PAYLOAD, &[payload::SOL, 1, 0xc0, 0, 0, 0])
}

#[must_use]
pub fn deactivate_console() -> IpmiCommand {
    request("the end of the serial console", APP, number::DEACTIVATE_PAYLOAD, &[payload::SOL, 1, 0, 0, 0, 0])
}

/// The UDP port at which the console speaks (table 24-2), none where the answer is too short for one.
#[must_use]
pub fn console_port(data: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes([*data.get(8)?, *data.get(9)?]))
}

#[must_use]
pub fn device_id() -> IpmiCommand {
    request("the device ID", APP, number::DEVICE_ID, &[])
}

#[must_use]
pub fn system_guid() -> IpmiCommand {
    request("the system's GUID", APP, number::SYSTEM_GUID, &[])
}

#[must_use]
pub fn chassis_status() -> IpmiCommand {
    request("the chassis status", CHASSIS, number::CHASSIS_STATUS, &[])
}

#[must_use]
pub fn chassis_control(control: ChassisControl) -> IpmiCommand {
    request(control.name(), CHASSIS, number::CHASSIS_CONTROL, &[control.code()])
}

#[must_use]
pub fn boot_flags() -> IpmiCommand {
    request("the boot flags", CHASSIS, number::GET_BOOT_OPTIONS, &[parameter::BOOT_FLAGS, 0, 0])
}

#[must_use]
pub fn fru_area() -> IpmiCommand {
    request("the size of the FRU inventory", STORAGE, number::FRU_AREA, &[0])
}

#[must_use]
pub fn read_fru(offset: u16, count: u8) -> IpmiCommand {
    let [low, high] = offset.to_le_bytes();
    request("the FRU inventory", STORAGE, number::READ_FRU, &[0, low, high, count])
}

/// Parameters of the system boot options (table 28-14).
mod parameter {
    pub(super) const SET_IN_PROGRESS: u8 = 0;
    pub(super) const VALID_BIT_CLEARING: u8 = 3;
    pub(super) const INFO_ACKNOWLEDGE: u8 = 4;
    pub(super) const BOOT_FLAGS: u8 = 5;
}

/// What sets the boot flags, in order. Only the one that carries them must succeed: many BMCs know no
/// other parameter, and what it came to is read back anyway.
#[must_use]
pub fn set_boot(flags: BootFlags) -> [(IpmiCommand, IsNeeded); 5] {
    let set = |what, number, data: &[u8]| request(what, CHASSIS, number::SET_BOOT_OPTIONS, &[&[number], data].concat());
    [
        (set("the begin of boot options", parameter::SET_IN_PROGRESS, &[1]), false),
        // A server may take longer than a minute until its firmware asks: the flags stay valid until then.
        (set("the life of boot flags", parameter::VALID_BIT_CLEARING, &[0x08]), false),
        // The firmware has not seen the new options: its acknowledgement of the last ones is cleared.
        (set("the acknowledgement of boot options", parameter::INFO_ACKNOWLEDGE, &[0x01, 0x01]), false),
        (set("the boot flags", parameter::BOOT_FLAGS, &flags.write()), true),
        (set("the end of boot options", parameter::SET_IN_PROGRESS, &[0]), false),
    ]
}

/// Asks what clears the boot flags (parameter 3).
#[must_use]
pub fn boot_flags_life() -> IpmiCommand {
    let data = [parameter::VALID_BIT_CLEARING, 0, 0];
    request("the life of boot flags", CHASSIS, number::GET_BOOT_OPTIONS, &data)
}

/// Says by an answer to [`boot_flags_life`] whether the BMC keeps boot flags until a boot, and no timer clears them.
#[must_use]
pub fn are_flags_kept(data: &[u8]) -> bool {
    matches!(*data, [_, number, bits, ..] if number & 0x7f == parameter::VALID_BIT_CLEARING && bits & 0x08 != 0)
}

/// Whether the whole fails when this request fails.
pub type IsNeeded = bool;

/// Chassis Control (section 28.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChassisControl {
    Off,
    On,
    Cycle,
    Reset,
    Soft,
}

impl ChassisControl {
    pub const ALL: [Self; 5] = [Self::Off, Self::On, Self::Cycle, Self::Reset, Self::Soft];

    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::On => 1,
            Self::Cycle => 2,
            Self::Reset => 3,
            Self::Soft => 5,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Off => "the power control Off",
            Self::On => "the power control On",
            Self::Cycle => "the power control Cycle",
            Self::Reset => "the power control Reset",
            Self::Soft => "the power control Soft",
        }
    }
}

/// What does this in this state, best first; nothing where it is so already.
#[must_use]
pub fn controls(action: PowerAction, state: PowerState) -> &'static [ChassisControl] {
    if action.is_reached(state) {
        return &[];
    }
    match (action, state) {
        // A reset of a system that is off is refused.
        (PowerAction::On, _) | (PowerAction::ForceRestart, PowerState::Off) => &[ChassisControl::On],
        (PowerAction::ForceOff, _) => &[ChassisControl::Off],
        (PowerAction::GracefulOff, _) => &[ChassisControl::Soft],
        // A cycle is optional in the standard, and some refuse it for seconds after a start.
        (PowerAction::ForceRestart, _) => &[ChassisControl::Reset, ChassisControl::Cycle],
    }
}

/// The device that a system boots from (bits 5 to 2 of the boot flags' second byte).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BootDevice {
    /// The firmware's own order.
    None,
    Pxe,
    Disk,
    Cd,
    /// Setup, diagnostics, remote media.
    Other(u8),
}

impl BootDevice {
    /// None where IPMI has no number for it.
    #[must_use]
    pub fn of(target: NextBootSource) -> Option<Self> {
        match target {
            NextBootSource::Pxe => Some(Self::Pxe),
            NextBootSource::Hdd => Some(Self::Disk),
            NextBootSource::Cd => Some(Self::Cd),
            NextBootSource::None => Some(Self::None),
            NextBootSource::UefiHttp => None,
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Pxe => 1,
            Self::Disk => 2,
            Self::Cd => 5,
            Self::Other(code) => code & 0x0f,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            0 => Self::None,
            1 => Self::Pxe,
            2 => Self::Disk,
            5 => Self::Cd,
            other => Self::Other(other),
        }
    }

    /// The word that Redfish has for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Pxe => "Pxe",
            Self::Disk => "Hdd",
            Self::Cd => "Cd",
            Self::Other(_) => "Other",
        }
    }
}

/// Boot flags (table 28-14, parameter 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootFlags {
    /// The firmware is to look at the rest. BMCs clear it when the flags were used, or after a minute.
    pub is_valid: bool,
    /// The flags hold for all boots, not for the next one alone.
    pub is_persistent: bool,
    /// There is no third value: flags that say nothing say legacy.
    pub mode: BmcBootMode,
    pub device: BootDevice,
}

impl BootFlags {
    const VALID: u8 = 0x80;
    const PERSISTENT: u8 = 0x40;
    const UEFI: u8 = 0x20;

    #[must_use]
    pub fn new(device: BootDevice, is_persistent: bool, mode: BmcBootMode) -> Self {
        // No device is no override, and valid flags without one still say legacy or not.
        Self { is_valid: device != BootDevice::None, is_persistent, mode, device }
    }

    #[must_use]
    pub fn write(self) -> [u8; 5] {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let first = bit(self.is_valid, Self::VALID)
            | bit(self.is_persistent, Self::PERSISTENT)
            | bit(self.mode == BmcBootMode::Uefi, Self::UEFI);
        [first, self.device.code() << 2, 0, 0, 0]
    }

    /// Reads an answer to [`boot_flags`]: version, number of the parameter, its bytes.
    #[must_use]
    pub fn read(data: &[u8]) -> Option<Self> {
        let [_, number, first, second, ..] = *data else { return None };
        // The bit 80 says that the parameter is locked: it holds all the same.
        (number & 0x7f == parameter::BOOT_FLAGS).then(|| Self {
            is_valid: first & Self::VALID != 0,
            is_persistent: first & Self::PERSISTENT != 0,
            mode: if first & Self::UEFI != 0 { BmcBootMode::Uefi } else { BmcBootMode::Legacy },
            device: BootDevice::from_code((second >> 2) & 0x0f),
        })
    }

    /// Do these, read back, have what was set?
    #[must_use]
    pub fn supports(self, wanted: Self) -> bool {
        match wanted.device {
            BootDevice::None => !self.is_valid || self.device == BootDevice::None,
            BootDevice::Pxe | BootDevice::Disk | BootDevice::Cd | BootDevice::Other(_) => self == wanted,
        }
    }

    #[must_use]
    pub fn enabled(self) -> &'static str {
        match (self.is_valid && self.device != BootDevice::None, self.is_persistent) {
            (false, _) => "Disabled",
            (true, false) => "Once",
            (true, true) => "Continuous",
        }
    }
}

impl std::fmt::Display for BootFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let valid = if self.is_valid { "" } else { ", not marked valid" };
        let life = if self.is_persistent { "always" } else { "once" };
        write!(f, "{} {life}, {}{valid}", self.device.as_str(), self.mode.as_str())
    }
}

/// Reads the power state from an answer to [`chassis_status`].
#[must_use]
pub fn power(data: &[u8]) -> Option<PowerState> {
    let first = *data.first()?;
    Some(if first & 1 != 0 { PowerState::On } else { PowerState::Off })
}

/// What an answer to [`authentication_capabilities`] says of logging in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthCapabilities {
    pub speaks_v20: bool,
    /// A second key of the whole BMC is needed.
    pub wants_bmc_key: bool,
}

impl AuthCapabilities {
    #[must_use]
    pub fn read(data: &[u8]) -> Option<Self> {
        let [_, types, status, extended, ..] = *data else { return None };
        // Bit 80: the byte behind the status is there for version 2.0.
        Some(Self { speaks_v20: types & 0x80 != 0 && extended & 2 != 0, wants_bmc_key: status & 0x20 != 0 })
    }
}

/// Reads the bytes of an inventory from an answer to [`fru_area`]. One that is read by words is not read at all.
#[must_use]
pub fn fru_size(data: &[u8]) -> Option<usize> {
    let [low, high, access, ..] = *data else { return None };
    (access & 1 == 0).then(|| usize::from(u16::from_le_bytes([low, high])))
}

/// The text of a system's GUID, where its bytes leave no doubt. They come in the order of RFC 4122, in
/// that of SMBIOS (the first three fields little endian), or all backwards as IPMI has it (section
/// 20.8); only the right order has a version and a variant that exist at their places.
#[must_use]
pub fn guid_text(data: &[u8]) -> Option<String> {
    let plain: [u8; 16] = data.try_into().ok()?;
    let [a, b, c, d, e, f, g, h, ..] = plain;
    let mut smbios = plain;
    smbios[..8].copy_from_slice(&[d, c, b, a, f, e, h, g]);
    let mut backwards = plain;
    backwards.reverse();
    let is_uuid = |bytes: &&[u8; 16]| matches!(bytes[6] >> 4, 1..=5) && bytes[8] >> 6 == 0b10;
    let candidates = [plain, smbios, backwards];
    let mut found = candidates.iter().filter(is_uuid);
    let (first, another) = (found.next()?, found.next());
    another.is_none().then(|| Guid::from_u128(u128::from_be_bytes(*first)).to_string())
}

impl IpmiReply {
    /// Returns the data of a request that was carried out.
    ///
    /// # Errors
    /// The meaning of the completion code (section 5.2 and those of the commands).
    pub fn accepted(self, what: &str) -> Result<Vec<u8>, Error> {
        let code = self.completion;
        let told = |meaning: &str| format!("{meaning}, completion code {code:#04x}");
        Err(match code {
            completion::DONE => return Ok(self.data),
            // Busy, out of time, in its start or its update.
            completion::NODE_BUSY | 0xc3 | 0xce..=0xd2 => Error::Busy { status: code.into() },
            completion::INVALID_COMMAND | 0xc2 => unsupported(what, &told("it does not know the command")),
            0xc9 | completion::INVALID_FIELD => unsupported(what, &told("it does not take this value")),
            0x80 => unsupported(what, &told("it does not have this parameter")),
            0xd4 => Error::Forbidden { message: format!("{what}: {}", told("privilege too low")) },
            0xd5 | 0xd6 => refused(what, code, &told("not possible in its present state")),
            completion::LENGTH_INVALID | completion::LENGTH_EXCEEDED => refused(what, code, &told("a wrong length")),
            0xc4 => refused(what, code, &told("out of space")),
            0xcb => refused(what, code, &told("not there")),
            _ => refused(what, code, &told("no reason that the standard has")),
        })
    }
}

fn unsupported(what: &str, why: &str) -> Error {
    Error::Unsupported { what: format!("do {what} ({why})") }
}

fn refused(what: &str, code: u8, message: &str) -> Error {
    Error::Refused { what: what.to_owned(), status: code.into(), message: message.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn controls_go_by_the_state() {
        use PowerAction::{ForceOff, ForceRestart, GracefulOff, On};
        assert_eq!(controls(On, PowerState::On), []);
        assert_eq!(controls(On, PowerState::Off), [ChassisControl::On]);
        assert_eq!(controls(ForceOff, PowerState::Off), []);
        assert_eq!(controls(ForceOff, PowerState::On), [ChassisControl::Off]);
        assert_eq!(controls(GracefulOff, PowerState::On), [ChassisControl::Soft]);
        assert_eq!(controls(ForceRestart, PowerState::Off), [ChassisControl::On]);
        assert_eq!(controls(ForceRestart, PowerState::On), [ChassisControl::Reset, ChassisControl::Cycle]);
    }

    #[test]
    fn boot_flags_as_the_standard_has_them() {
        let pxe_once = BootFlags::new(BootDevice::Pxe, false, BmcBootMode::Uefi);
        assert_eq!(pxe_once.write(), [0xa0, 0x04, 0, 0, 0]);
        assert_eq!(BootFlags::new(BootDevice::Disk, true, BmcBootMode::Legacy).write(), [0xc0, 0x08, 0, 0, 0]);
        assert_eq!(BootFlags::new(BootDevice::Cd, true, BmcBootMode::Uefi).write(), [0xe0, 0x14, 0, 0, 0]);
        assert_eq!(BootFlags::new(BootDevice::None, false, BmcBootMode::Legacy).write(), [0, 0, 0, 0, 0]);
        let read = |first, second| BootFlags::read(&[1, 5, first, second, 0, 0, 0]).unwrap();
        assert_eq!(read(0xa0, 0x04), pxe_once);
        assert!(read(0xa0, 0x04).supports(pxe_once));
        for (first, second) in [(0x20, 0x04), (0xe0, 0x04), (0x80, 0x04), (0xa0, 0x08), (0, 0)] {
            assert!(!read(first, second).supports(pxe_once), "{first:02x} {second:02x}");
        }
        let none = BootFlags::new(BootDevice::None, false, BmcBootMode::Uefi);
        assert!(read(0x20, 0x04).supports(none) && read(0x80, 0).supports(none) && !read(0xa0, 0x04).supports(none));
        assert_eq!(BootFlags::read(&[1, 4, 0xa0, 4]), None);
        assert_eq!(read(0x00, 0x04).to_string(), "Pxe once, Legacy, not marked valid");
    }

    #[test]
    fn codes_are_told_apart() {
        let error = |completion| IpmiReply { completion, data: vec![] }.accepted("the chassis status").unwrap_err();
        assert_eq!(error(0xc0), Error::Busy { status: 0xc0 });
        assert_eq!(
            error(0xc1).to_string(),
            "the BMC cannot do the chassis status (it does not know the command, completion code 0xc1)"
        );
        assert!(matches!(error(0xd4), Error::Forbidden { .. }));
        assert_eq!(
            error(0xd5).to_string(),
            "the BMC refused the chassis status with status 213: not possible in its present state, completion code 0xd5"
        );
        assert!(error(0xd2).is_temporary() && !error(0xcc).is_temporary());
    }

    #[test]
    fn a_guid_in_each_order_is_the_same_text() {
        let plain: [u8; 16] =
            [0x42, 0x1a, 0x9f, 0x10, 0x5e, 0x2c, 0x4b, 0x77, 0x91, 0x20, 0x52, 0x54, 0x00, 0x01, 0x02, 0x03];
        let mut smbios = plain;
        smbios[..8].copy_from_slice(&[0x10, 0x9f, 0x1a, 0x42, 0x2c, 0x5e, 0x77, 0x4b]);
        let mut backwards = plain;
        backwards.reverse();
        for bytes in [plain, smbios, backwards] {
            assert_eq!(guid_text(&bytes).as_deref(), Some("421a9f10-5e2c-4b77-9120-525400010203"));
        }
        assert_eq!(guid_text(&[0; 16]), None);
        assert_eq!(guid_text(&[0xff; 16]), None);
        assert_eq!(guid_text(&plain[..15]), None);
        // Two orders are possible, so it is not known.
        assert_eq!(guid_text(&[0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x88, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    proptest! {
        #[test]
        fn no_answer_panics(completion in any::<u8>(), data in prop::collection::vec(any::<u8>(), 0..40)) {
            drop((power(&data), AuthCapabilities::read(&data), fru_size(&data), guid_text(&data)));
            if let Some(flags) = BootFlags::read(&data) {
                drop((flags.to_string(), flags.enabled(), flags.write()));
            }
            drop(IpmiReply { completion, data }.accepted("it"));
        }
    }
}
