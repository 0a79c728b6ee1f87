//! Clocks: the time since the kernel's start, the system clock and the hardware clock.

use std::{fs::OpenOptions, io, os::fd::AsRawFd, path::Path, time::Duration};

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};

/// `struct rtc_time` of linux/rtc.h.
#[repr(C)]
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RtcTime {
    sec: i32,
    min: i32,
    hour: i32,
    mday: i32,
    mon: i32,
    year: i32,
    wday: i32,
    yday: i32,
    isdst: i32,
}

mod ioctls {
    use super::RtcTime;
    nix::ioctl_write_ptr!(set_rtc, b'p', 0x0a, RtcTime);
}

/// Time since the kernel's start, including suspension.
#[must_use]
pub fn uptime() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

pub fn set_system_clock(unix_ms: u64) -> io::Result<()> {
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from(Duration::from_millis(unix_ms)))?;
    Ok(())
}

/// Sets the hardware clock, in UTC.
pub fn set_hardware_clock(device: &Path, unix_ms: u64) -> io::Result<()> {
    let file = OpenOptions::new().read(true).open(device)?;
    let time = broken_down(unix_ms / 1000);
    // SAFETY: RTC_SET_TIME reads one rtc_time from the pointer, which outlives the call.
    unsafe { ioctls::set_rtc(file.as_raw_fd(), &raw const time) }?;
    Ok(())
}

/// Gregorian date of a Unix time, by counting years of March to February in cycles of 400 years.
#[must_use]
pub fn broken_down(unix_s: u64) -> RtcTime {
    let second_of_day = unix_s % 86_400;
    let day = unix_s / 86_400 + 719_468;
    let (cycle, day_of_cycle) = (day / 146_097, day % 146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let mday = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_cycle + cycle * 400 + u64::from(month <= 2);
    let field = |value: u64| i32::try_from(value).unwrap_or(0);
    RtcTime {
        sec: field(second_of_day % 60),
        min: field(second_of_day / 60 % 60),
        hour: field(second_of_day / 3600),
        mday: field(mday),
        mon: field(month - 1),
        year: field(year.saturating_sub(1900)),
        ..RtcTime::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(unix_s: u64) -> (i32, i32, i32, i32, i32, i32) {
        let t = broken_down(unix_s);
        (t.year + 1900, t.mon + 1, t.mday, t.hour, t.min, t.sec)
    }

    #[test]
    fn dates_around_leap_days() {
        assert_eq!(date(0), (1970, 1, 1, 0, 0, 0));
        assert_eq!(date(951_782_399), (2000, 2, 28, 23, 59, 59));
        assert_eq!(date(951_782_400), (2000, 2, 29, 0, 0, 0));
        assert_eq!(date(1_709_251_199), (2024, 2, 29, 23, 59, 59));
        assert_eq!(date(1_795_224_093), (2026, 11, 21, 1, 21, 33));
        assert_eq!(date(4_107_542_400), (2100, 3, 1, 0, 0, 0));
    }
}
