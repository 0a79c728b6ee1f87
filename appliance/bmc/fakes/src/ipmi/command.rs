//! What the fake BMC does for each command.

use firesteel_bmc::ipmi::command::{BootFlags, ChassisControl, completion, number};
use firesteel_bmc::ipmi::packet::IpmiMessage;

use super::{FakeIpmiState, IpmiFault};

impl FakeIpmiState {
    pub(super) fn capabilities(&mut self, request: &IpmiMessage) -> Vec<u8> {
        if (request.function, request.command) != (0x06, number::AUTHENTICATION_CAPABILITIES) {
            return vec![completion::INVALID_COMMAND];
        }
        let (types, extended) = if self.has(&IpmiFault::OldVersion) { (0x04, 0x01) } else { (0x80, 0x03) };
        let status = if self.has(&IpmiFault::BmcKey) { 0x24 } else { 0x04 };
        vec![completion::DONE, 1, types, status, extended, 0, 0, 0, 0]
    }

    /// A completion code and data.
    pub(super) fn perform(&mut self, request: &IpmiMessage) -> Vec<u8> {
        self.requests.push((request.function, request.command));
        for fault in &mut self.faults {
            if let IpmiFault::Completes(function, command, code) = fault
                && (*function, *command) == (request.function, request.command)
            {
                return vec![*code];
            }
            if let IpmiFault::Busy(times) = fault
                && *times > 0
            {
                *times -= 1;
                return vec![completion::NODE_BUSY];
            }
        }
        let done = |data: &[u8]| [&[completion::DONE], data].concat();
        match (request.function, request.command, &request.data[..]) {
            (0x06, number::DEVICE_ID, _) => done(&[0x20, 1, 9, 8, 2, 0, 0, 0, 0, 0, 0]),
            (0x06, number::SYSTEM_GUID, _) => done(&self.guid),
            (0x06, number::SET_PRIVILEGE, [level]) => {
                if self.has(&IpmiFault::OperatorOnly) && *level > 3 {
                    vec![0x81]
                } else {
                    done(&[*level])
                }
            }
            (0x06, number::CLOSE_SESSION, _) => done(&[]),
            (0x06, number::ACTIVATE_PAYLOAD, [1, 1, ..]) if self.serial.is_some() => match self.listener {
                Some(_) => vec![0x80],
                None if self.is_serial_taken => vec![0x80],
                None => done(&[0, 0, 0, 0, 0xff, 0, 0xff, 0, 0x6f, 0x02, 0xff, 0xff]),
            },
            (0x06, number::DEACTIVATE_PAYLOAD, [1, 1, ..]) if self.serial.is_some() => done(&[]),
            (0x00, number::CHASSIS_STATUS, _) => done(&[0x60 | u8::from(self.is_on), 0, 0]),
            (0x00, number::CHASSIS_CONTROL, [control]) => self.control(*control),
            (0x00, number::SET_BOOT_OPTIONS, [5, flags @ ..]) => {
                if !self.has(&IpmiFault::ForgetsBoot) {
                    self.boot_flags = *flags.first_chunk().unwrap_or(&self.boot_flags);
                    if self.has(&IpmiFault::NeverValid) {
                        self.boot_flags[0] &= 0x7f;
                    }
                }
                done(&[])
            }
            (0x00, number::SET_BOOT_OPTIONS, [3, bits, ..]) if !self.has(&IpmiFault::ClearsFlags) => {
                self.flags_life = *bits;
                done(&[])
            }
            (0x00, number::GET_BOOT_OPTIONS, [3, ..]) => done(&[1, 3, self.flags_life]),
            (0x00, number::SET_BOOT_OPTIONS, [0 | 4, ..]) => done(&[]),
            (0x00, number::SET_BOOT_OPTIONS, _) => vec![0x80],
            (0x00, number::GET_BOOT_OPTIONS, [5, ..]) => done(&[&[1, 5][..], &self.boot_flags].concat()),
            (0x0a, number::FRU_AREA, _) => {
                let [low, high] = u16::try_from(self.inventory.len()).unwrap_or(u16::MAX).to_le_bytes();
                done(&[low, high, 0])
            }
            (0x0a, number::READ_FRU, [0, low, high, count]) => self.read_fru(u16::from_le_bytes([*low, *high]), *count),
            _ => vec![completion::INVALID_COMMAND],
        }
    }

    fn control(&mut self, code: u8) -> Vec<u8> {
        let Some(control) = ChassisControl::ALL.into_iter().find(|control| control.code() == code) else {
            return vec![completion::INVALID_FIELD];
        };
        let is_on = match control {
            ChassisControl::Cycle | ChassisControl::Reset if !self.is_on => return vec![0xd5],
            ChassisControl::On | ChassisControl::Cycle | ChassisControl::Reset => true,
            ChassisControl::Off | ChassisControl::Soft => false,
        };
        self.controls.push(code);
        if !self.has(&IpmiFault::IgnoresPower) {
            self.is_on = is_on;
            let flags = BootFlags::read(&[&[1, 5][..], &self.boot_flags].concat());
            // Flags for one boot are used up by it.
            if is_on && flags.is_some_and(|flags| !flags.is_persistent) {
                self.boot_flags = [0; 5];
            }
        }
        vec![completion::DONE]
    }

    fn read_fru(&self, offset: u16, count: u8) -> Vec<u8> {
        if count > self.fru_bytes_max {
            return vec![completion::CANNOT_RETURN_SO_MUCH];
        }
        let Some(rest) = self.inventory.get(usize::from(offset)..) else { return vec![0xc9] };
        let bytes = &rest[..rest.len().min(count.into())];
        [&[completion::DONE, u8::try_from(bytes.len()).unwrap_or(u8::MAX)], bytes].concat()
    }
}
