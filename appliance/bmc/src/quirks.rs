//! How vendors' services differ where it matters here: rows of one table, never an `if` in the client.
//!
//! A row is found by what the service says of itself without a login (`Vendor` and `Product` of the
//! service root), by what the system says (`Manufacturer`, `Model`), and by the manager's firmware.
//! All rows that fit count. Each names where the difference was reported; none was taken over unread.

use crate::model::{RedfishSystem, ServiceRoot};

/// What differs, of all rows that fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BmcQuirks {
    /// Drops an override that does not repeat the mode, even where it is unchanged, or refuses it.
    pub repeats_mode: bool,
    /// "Once" becomes "Continuous" and stays: the override has to be taken back.
    pub once_stays: bool,
    /// An override is switched off with its target left in place: "None" is refused.
    pub clears_with_pxe: bool,
    /// A virtual CD is booted as `UsbCd`; `Cd` is a drive in the machine.
    pub virtual_cd_is_usb_cd: bool,
    /// `Cd` may be a drive in the machine: only the boot shows which one boots.
    pub cd_may_be_physical: bool,
    /// `HttpBootUri` is shown and not acted on, or absent: the URL has to come by DHCP.
    pub ignores_http_boot_uri: bool,
    /// `UefiHttp` is no HTTP boot: the service fetches the file itself and attaches it as a CD.
    pub http_boot_is_cd: bool,
    /// The mode is an attribute of the BIOS, changed by a job at the next start: read back it is the old one till then.
    pub changes_mode_by_job: bool,
    /// Changes of the boot go to the resource of the settings (DSP0266, section 9.10) where there is one.
    pub boot_in_settings: bool,
    /// The power button, pressed for a moment, is what asks the operating system to shut down.
    pub button_shuts_down: bool,
    /// A PATCH without If-Match is refused; `*` stands for an ETag that is not given.
    pub wants_etag: bool,
}

/// What a row is found by.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuirkSubject<'a> {
    /// `Vendor` of the service root.
    pub vendor: &'a str,
    /// `Product` of the service root.
    pub product: &'a str,
    /// `Manufacturer` of the system.
    pub manufacturer: &'a str,
    /// `Model` of the system.
    pub model: &'a str,
    /// `FirmwareVersion` of the manager; empty where it was not read.
    pub firmware: &'a str,
}

impl<'a> QuirkSubject<'a> {
    #[must_use]
    pub fn of(root: &'a ServiceRoot, system: &'a RedfishSystem) -> Self {
        Self {
            vendor: root.vendor.as_deref().unwrap_or_default(),
            product: root.product.as_deref().unwrap_or_default(),
            manufacturer: system.manufacturer.as_deref().unwrap_or_default(),
            model: system.model.as_deref().unwrap_or_default(),
            firmware: "",
        }
    }
}

/// One difference. Texts are in lower case; empty ones fit all.
struct QuirkRow {
    /// The beginning of the service's `Vendor` or the system's `Manufacturer`.
    vendor: &'static str,
    /// A part of the service's `Product` or the system's `Model`.
    model: &'static str,
    /// Beginnings of the manager's firmware version.
    firmware: &'static [&'static str],
    set: fn(&mut BmcQuirks),
    /// What was seen, in words.
    #[cfg_attr(not(test), allow(dead_code, reason = "for readers, and the test that wants one in each row"))]
    seen: &'static str,
    /// The report of it.
    #[cfg_attr(not(test), allow(dead_code, reason = "for readers, and the test that wants one in each row"))]
    source: &'static str,
}

const ANY: QuirkRow = QuirkRow { vendor: "", model: "", firmware: &[], set: |_| {}, seen: "", source: "" };

const ROWS: &[QuirkRow] = &[
    QuirkRow {
        vendor: "supermicro",
        set: |quirks| quirks.repeats_mode = true,
        seen: "X11 and X12 answer 200 to an override without the mode, and boot the disk",
        source: "github.com/redhat-performance/jetlag/issues/18",
        ..ANY
    },
    QuirkRow {
        vendor: "supermicro",
        set: |quirks| quirks.virtual_cd_is_usb_cd = true,
        seen: "the virtual CD boots as UsbCd",
        source: "github.com/redhat-performance/jetlag/pull/152",
        ..ANY
    },
    QuirkRow {
        vendor: "ami",
        set: |quirks| quirks.boot_in_settings = true,
        seen: "a PATCH of the system is refused: the boot belongs to the settings resource Systems/Self/SD",
        source: "github.com/DMTF/Redfish-Tacklebox/issues/144",
        ..ANY
    },
    QuirkRow {
        vendor: "asrock",
        set: |quirks| quirks.boot_in_settings = true,
        seen: "as AMI, whose firmware it is",
        source: "github.com/DMTF/Redfish-Tacklebox/issues/144",
        ..ANY
    },
    QuirkRow {
        vendor: "ami",
        set: |quirks| quirks.repeats_mode = true,
        seen: "an override is not taken back without the mode: a required property",
        source: "github.com/ansible-collections/community.general/issues/11542",
        ..ANY
    },
    QuirkRow {
        vendor: "hp",
        set: |quirks| {
            quirks.clears_with_pxe = true;
            quirks.button_shuts_down = true;
        },
        seen: "iLO refuses Disabled with the target None; older ones offer PushPowerButton and no GracefulShutdown",
        source: "github.com/ironcore-dev/metal-operator/pull/998, github.com/stmcginnis/gofish/pull/57",
        ..ANY
    },
    QuirkRow {
        vendor: "hp",
        model: "gen11",
        set: |quirks| quirks.ignores_http_boot_uri = true,
        seen: "iLO 6 shows HttpBootUri and does not take it: UrlBootFile of the BIOS is what counts",
        source: "github.com/dsx-ai-factory/libredfish/pull/76",
        ..ANY
    },
    QuirkRow {
        vendor: "dell",
        set: |quirks| quirks.ignores_http_boot_uri = true,
        seen: "there is no HttpBootUri: HttpDev1Uri of the BIOS is what counts",
        source: "github.com/bmc-toolbox/bmclib/pull/463",
        ..ANY
    },
    QuirkRow {
        vendor: "dell",
        set: |quirks| quirks.changes_mode_by_job = true,
        seen: "a change of the boot mode is a BIOS job in the iDRAC's queue, which runs when the system starts",
        source: "github.com/dell/terraform-provider-redfish/issues/149",
        ..ANY
    },
    QuirkRow {
        vendor: "dell",
        // iDRAC 8 and the first years of iDRAC 9.
        firmware: &["1.", "2.", "3.", "4."],
        set: |quirks| quirks.cd_may_be_physical = true,
        seen: "Cd boots a drive in the machine and no virtual one; later firmware boots the virtual one",
        source: "github.com/dell/iDRAC-Redfish-Scripting/issues/90, \
                 github.com/ansible-collections/community.general/issues/3423",
        ..ANY
    },
    QuirkRow {
        vendor: "lenovo",
        set: |quirks| {
            quirks.wants_etag = true;
            quirks.ignores_http_boot_uri = true;
        },
        seen: "XCC answers 428 to a PATCH without If-Match, and 412 to one with another resource's ETag; the HTTP \
               boot URI is an attribute of the BIOS",
        source: "github.com/ansible/ansible/pull/56150, \
                 github.com/ansible-collections/community.general/issues/11261, \
                 github.com/dsx-ai-factory/libredfish/pull/74",
        ..ANY
    },
    QuirkRow {
        vendor: "gigabyte",
        set: |quirks| quirks.wants_etag = true,
        seen: "answers that the request did not provide the required precondition",
        source: "github.com/ansible-collections/community.general/pull/6434",
        ..ANY
    },
    QuirkRow {
        vendor: "sushy emulator",
        set: |quirks| {
            quirks.once_stays = true;
            quirks.http_boot_is_cd = true;
        },
        seen: "each override is Continuous, whatever was asked; UefiHttp makes the emulator download the URI and \
               attach it as a CD, or becomes Pxe without one",
        source: "sushy-tools 2.2.0, emulator/main.py and templates/system.json",
        ..ANY
    },
];

/// The differences of a service that says this of itself.
#[must_use]
pub fn quirks_of(identity: &QuirkSubject<'_>) -> BmcQuirks {
    let begins = |text: &str, with: &str| text.trim_start().to_ascii_lowercase().starts_with(with);
    let has = |text: &str, part: &str| text.to_ascii_lowercase().contains(part);
    let mut quirks = BmcQuirks::default();
    for row in ROWS {
        let fits = (begins(identity.vendor, row.vendor) || begins(identity.manufacturer, row.vendor))
            && (has(identity.product, row.model) || has(identity.model, row.model))
            && (row.firmware.is_empty() || row.firmware.iter().any(|version| begins(identity.firmware, version)));
        if fits {
            (row.set)(&mut quirks);
        }
    }
    quirks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vendor: &str, manufacturer: &str) -> BmcQuirks {
        quirks_of(&QuirkSubject { vendor, manufacturer, ..QuirkSubject::default() })
    }

    #[test]
    fn rows_fit_by_vendor_or_manufacturer() {
        assert!(of("", "Supermicro").repeats_mode);
        assert!(of("Supermicro", "").virtual_cd_is_usb_cd);
        assert!(of("", "SUPERMICRO Inc.").repeats_mode);
        assert!(of("Dell", "Dell Inc.").ignores_http_boot_uri);
        assert!(!of("Dell", "Dell Inc.").repeats_mode);
        assert!(of("HPE", "").clears_with_pxe);
        assert!(of("AMI", "ASRockRack").boot_in_settings && of("AMI", "ASRockRack").repeats_mode);
        assert!(of("", "Sushy Emulator").once_stays);
        assert!(of("", "Lenovo").wants_etag);
        assert_eq!(of("", ""), BmcQuirks::default());
        assert_eq!(of("Contoso", "Firesteel"), BmcQuirks::default());
    }

    #[test]
    fn rows_fit_by_model_and_firmware() {
        let dell =
            |firmware| quirks_of(&QuirkSubject { manufacturer: "Dell Inc.", firmware, ..QuirkSubject::default() });
        assert!(dell("2.60.60.60").cd_may_be_physical && dell("3.30.30.30").cd_may_be_physical);
        assert!(!dell("7.10.30.00").cd_may_be_physical && !dell("").cd_may_be_physical);
        let hpe = |model| quirks_of(&QuirkSubject { manufacturer: "HPE", model, ..QuirkSubject::default() });
        assert!(hpe("ProLiant DL380a Gen11").ignores_http_boot_uri && hpe("ProLiant DL380a Gen11").clears_with_pxe);
        assert!(!hpe("ProLiant DL380 Gen10").ignores_http_boot_uri);
    }

    #[test]
    fn each_row_names_a_vendor_what_was_seen_and_where() {
        for row in ROWS {
            assert!(!row.vendor.is_empty() && !row.seen.is_empty() && !row.source.is_empty());
            assert_eq!((row.vendor, row.model), (&*row.vendor.to_ascii_lowercase(), &*row.model.to_ascii_lowercase()));
            let mut quirks = BmcQuirks::default();
            (row.set)(&mut quirks);
            assert_ne!(quirks, BmcQuirks::default(), "{} changes nothing", row.vendor);
        }
    }
}
