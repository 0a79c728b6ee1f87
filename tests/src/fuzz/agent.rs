//! What firmware, disks and kernel tell the agent: identities, boot variables, module index, log.

use firesteel_agent::log::{self, AgentLog};
use firesteel_efi::{device_path, load_option, order};
use firesteel_inspect::{self as inspect, cpu, memory};
use firesteel_modules::index::{self, Index};
use firesteel_sysfs::{location::PciAddress, vpd};
use firesteel_wire::LogSource;
use firesteel_wire::limits::{FIELD_BYTES_MAX, LOG_LINE_BYTES_MAX};

/// Stands for the token, which no log line may hold.
const SECRET: &str = "SEALED-TOKEN";

pub(super) fn check(input: &[u8]) {
    inspect::check(input);
    index::check(input);
    log::check(input);
    identities(input);
    variables(input);
    let text = String::from_utf8_lossy(input);
    let field = firesteel_wire::text::field(&text);
    assert!(field.len() <= FIELD_BYTES_MAX);
    super::assert_plain(&field);
    let kept = AgentLog::new(1, vec![SECRET.to_owned()]).add(LogSource::Kernel, 6, std::time::Duration::ZERO, &text);
    super::assert_plain(&kept);
    assert!(kept.len() <= LOG_LINE_BYTES_MAX && !kept.contains(SECRET));
    assert!(cpu::parse(&text, "x86_64").clock_mhz.is_finite(), "a number that JSON can carry");
    let _mib = memory::total_mib(&text);
    let _address = PciAddress::parse(&text);
    modules(&text);
}

fn identities(page: &[u8]) {
    let mut texts = vec![vpd::unit_serial(page)];
    let names = [vpd::logical_unit_name(page), vpd::ata_identify(page).and_then(|identity| identity.name)];
    for name in names.into_iter().flatten() {
        assert!(name.wwn.starts_with("0x") && name.wwn.len() == 18, "{name:?}");
        assert_eq!(name.wwn_with_extension.len(), if name.vendor_extension.is_empty() { 18 } else { 34 });
        texts.extend([name.wwn, name.wwn_with_extension, name.vendor_extension]);
    }
    if let Some(identity) = vpd::ata_identify(page) {
        texts.extend([identity.serial, identity.model, identity.firmware]);
    }
    for text in texts {
        assert!(text.len() <= FIELD_BYTES_MAX);
        super::assert_plain(&text);
    }
}

fn variables(value: &[u8]) {
    let order = order::decode(value);
    assert_eq!(order::encode(&order), value[..value.len() / 2 * 2]);
    let Some(option) = load_option::decode(value) else { return };
    assert!(option.path.len() < value.len() && option.description.chars().count() <= 256);
    let entries = [order::BootVariable { number: 3, option }];
    assert_eq!(entries[0].is_network(), device_path::is_network(&entries[0].option.path));
    let order = &order[..order.len().min(64)];
    if let Some(change) = order::change(&entries, order, Some(3)) {
        assert!(change.order.contains(&change.number), "our entry is in the order");
        for number in order {
            let kept = change.order.contains(number) || (*number == 3 && entries[0].is_own());
            assert!(kept, "the firmware's other entries stay");
        }
    }
}

fn modules(text: &str) {
    let index = Index::parse(text, text, text, text);
    for module in text.split_whitespace().take(8).flat_map(|word| index.resolve(word)).take(32) {
        let mut order = index.load_order(&module);
        let length = order.len();
        order.sort();
        order.dedup();
        assert_eq!(order.len(), length, "a module is loaded once");
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut ata = vec![0; 572];
    ata[80..86].copy_from_slice(b"MQ0000");
    ata[60 + 216..60 + 224].copy_from_slice(&[0x00, 0x50, 0x00, 0xc5, 0x34, 0x12, 0x78, 0x56]);
    let entry = load_option::encode(
        "UEFI PXEv4",
        &[device_path::DevicePathNode::PciRoot { uid: 0 }, device_path::DevicePathNode::Pci { device: 3, function: 0 }],
    );
    let mut network = load_option::encode("net", &[]);
    let end = network.len() - 4;
    network.splice(end..end, [3, 11, 4, 0]);
    network[4] += 4;
    vec![
        b"\0\x80\0\x08  DISK-1".to_vec(),
        [&[0, 0x83, 0, 12, 1, 3, 0, 8][..], &[0x50, 0, 0xc5, 0, 0xa1, 0xb2, 0xc3, 0xd4]].concat(),
        ata,
        entry,
        network,
        b"4,711,12345678,-;nvme nvme0: SEALED-TOKEN\x1b[2J\n SUBSYSTEM=nvme\n".to_vec(),
        b"kernel/a.ko: kernel/b-c.ko kernel/d.ko\nkernel/b-c.ko: kernel/a.ko\nalias pci:v*d?[0-9]sv* a\nsoftdep a pre: d post: b_c\npci:v1d23sv4\n".to_vec(),
        b"processor\t: 0\nmodel name\t: X\ncpu MHz\t\t: 2400.1\nflags\t\t: sse sse2\nMemTotal:  1024 kB\n".to_vec(),
        b"0000:00:1f.2".to_vec(),
        b"pci:v00008086d00001521sv000015D9sd00001521bc02sc00i00".to_vec(),
        b"eth0.50        | 50  | eth0\nNode 0 MemTotal:  32542668 kB\n".to_vec(),
    ]
}
