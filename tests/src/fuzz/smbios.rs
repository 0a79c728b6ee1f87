//! What firmware and drives say of themselves at length: SMBIOS tables, ATA and NVMe identify data.

use firesteel_inspect::capabilities;
use firesteel_inspect::smbios::{management, memory, platform, processor, structures};
use firesteel_wire::limits::{FIELD_BYTES_MAX, MANAGEMENT_MAX, MODULES_MAX, PROCESSORS_MAX};
use firesteel_wire::parts::{DiskCapabilities, HardwareParts};

pub(super) fn check(input: &[u8]) {
    let mut bytes = 0;
    for structure in structures(input) {
        bytes += 4;
        for offset in [4, 5, 6, 16, 255] {
            let text = structure.text(offset);
            assert!(text.len() <= FIELD_BYTES_MAX);
            super::assert_plain(&text);
        }
    }
    assert!(bytes <= input.len(), "no byte is read twice");
    parts(input);
    let mut can = DiskCapabilities::default();
    capabilities::add_provisioning(&mut can, input);
    if let Some(identify) = input.first_chunk::<512>() {
        capabilities::add_ata(&mut can, identify);
    }
    assert!(can.sanitize.len() <= 3 && can.hidden_areas.len() <= 2);
    if let Some(controller) = capabilities::nvme(input) {
        assert!(controller.sanitize.len() <= 3 && controller.format.len() <= 2);
    }
    let namespaces = capabilities::namespace_list(input, 64);
    assert!(namespaces.len() <= 64 && namespaces.windows(2).all(|two| two[0] < two[1]));
    let _bytes = capabilities::namespace_bytes(input);
}

fn parts(table: &[u8]) {
    let (modules, more) = memory::modules(table);
    assert!(modules.len() <= MODULES_MAX && (more == 0 || modules.len() == MODULES_MAX));
    let sum: u64 = modules.iter().map(|module| module.size_mib).sum();
    assert!(sum <= memory::installed_mib(table) && modules.iter().all(|module| module.size_mib > 0));
    let (processors, _) = processor::processors(table);
    let management = management::interfaces(table);
    assert!(processors.len() <= PROCESSORS_MAX && management.len() <= MANAGEMENT_MAX);
    let platform::PlatformModel { version, sku, family } = platform::model(table);
    for text in [version, sku, family, platform::firmware_release(table)] {
        super::assert_plain(&text);
    }
    let parts = HardwareParts {
        board: platform::board(table),
        chassis: platform::chassis(table),
        processors,
        memory: memory::array(table),
        modules,
        management,
        ..HardwareParts::default()
    };
    let sent = serde_json::to_string(&parts).unwrap();
    assert_eq!(serde_json::from_str::<HardwareParts>(&sent).unwrap(), parts, "what is sent is what was read");
}

fn structure(kind: u8, formatted: &[u8], strings: &str) -> Vec<u8> {
    let length = u8::try_from(formatted.len() + 4).unwrap();
    [&[kind, length, 0, 0], formatted, strings.as_bytes(), &[0, 0]].concat()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut module = [0; 0x58];
    module[4..8].copy_from_slice(&[72, 0, 64, 0]);
    module[8..10].copy_from_slice(&0x7fff_u16.to_le_bytes());
    module[0x0a..0x0f].copy_from_slice(&[9, 0, 1, 2, 0x22]);
    module[0x13..0x17].copy_from_slice(&[3, 4, 0, 5]);
    module[0x18..0x1c].copy_from_slice(&65_536_u32.to_le_bytes());
    let mut array = [0; 0x13];
    array[1..7].copy_from_slice(&[3, 6, 0, 0, 0, 0x80]);
    let mut mapped = [0; 0x1b];
    mapped[..8].fill(0xff);
    mapped[0x13..].copy_from_slice(&(1_u64 << 36).to_le_bytes());
    let mut socket = [0; 0x2c];
    (socket[0], socket[1], socket[3], socket[0x14]) = (1, 3, 2, 0x41);
    socket[0x1f..0x22].fill(0xff);
    let mut redfish = vec![0x40, 1, 4, 1, 4, 99];
    redfish.resize(6 + 99, 0);
    redfish[6 + 51..6 + 56].copy_from_slice(&[1, 169, 254, 0, 1]);
    redfish[6 + 84..6 + 87].copy_from_slice(&[0xbb, 1, 7]);
    redfish[6 + 90..].copy_from_slice(b"\x08bmc-name");
    let parts = [
        structure(0, &[[1; 16], [5; 16]].concat(), "AMI"),
        structure(1, &[&[1, 2, 3][..], &[0; 18], &[4, 5]].concat(), "M\0P\0r1.2\0SKU\0F"),
        structure(2, &[1, 2, 3, 4, 5, 0, 0, 0, 0, 0x0a], "M\0P\0V\0S\0T"),
        structure(3, &[1, 0x97, 0, 2, 3], "M\0S\0T"),
        structure(4, &socket, "CPU1\0Maker"),
        structure(16, &array, ""),
        structure(17, &module, "A1\0BANK\0Maker\0S-1\0P-1"),
        structure(19, &mapped, ""),
        structure(38, &[1, 0x20, 0x20, 0xff], ""),
        structure(42, &redfish, ""),
    ];
    let mut ata = vec![0; 512];
    ata[119] = 0xf0;
    ata[167] = 0x48;
    ata[256] = 0x29;
    let mut nvme = vec![0; capabilities::IDENTIFY_BYTES];
    (nvme[256], nvme[328], nvme[516], nvme[524]) = (0x0a, 7, 32, 4);
    let mut namespace = vec![0; capabilities::IDENTIFY_BYTES];
    (namespace[0], namespace[26], namespace[134]) = (8, 1, 12);
    let whole = [&parts.concat()[..], &[127, 4, 0, 0, 0, 0]].concat();
    parts.into_iter().chain([whole, ata, nvme, namespace, vec![0, 0xb2, 0, 4, 0, 0xe4, 2, 0]]).collect()
}
