//! Hosts as large sites have them: two sockets, eight network ports with LLDP, twelve disks; over 9 kB of
//! JSON in the host's status, and as much in its HardwareData.

use firesteel_resources::hardware_data::{
    BiosInfo, Cpu, FirmwareInfo, HardwareDetails, Lldp, Nic, Storage, StorageType, SystemVendor, Vlan,
};
use serde_json::{Value, json};

/// Every object has at least so many bytes.
pub(crate) const BYTES_MIN: usize = 9_000;

/// What the kernel says of a Xeon of 2023.
const FLAGS: &str = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush dts acpi mmx \
    fxsr sse sse2 ss ht tm pbe syscall nx pdpe1gb rdtscp lm constant_tsc art arch_perfmon pebs bts rep_good nopl \
    xtopology nonstop_tsc cpuid aperfmperf tsc_known_freq pni pclmulqdq dtes64 monitor ds_cpl vmx smx est tm2 ssse3 \
    sdbg fma cx16 xtpr pdcm pcid dca sse4_1 sse4_2 x2apic movbe popcnt tsc_deadline_timer aes xsave avx f16c rdrand \
    lahf_lm abm 3dnowprefetch cpuid_fault epb cat_l3 cat_l2 cdp_l3 cdp_l2 ssbd mba ibrs ibpb stibp ibrs_enhanced \
    tpr_shadow flexpriority ept vpid ept_ad fsgsbase tsc_adjust bmi1 avx2 smep bmi2 erms invpcid cqm rdt_a avx512f \
    avx512dq rdseed adx smap avx512ifma clflushopt clwb intel_pt avx512cd sha_ni avx512bw avx512vl xsaveopt xsavec \
    xgetbv1 xsaves cqm_llc cqm_occup_llc cqm_mbm_total cqm_mbm_local split_lock_detect avx_vnni avx512_bf16 wbnoinvd \
    dtherm ida arat pln pts hwp hwp_act_window hwp_epp hwp_pkg_req hfi avx512vbmi umip pku ospke waitpkg avx512_vbmi2 \
    gfni vaes vpclmulqdq avx512_vnni avx512_bitalg tme avx512_vpopcntdq la57 rdpid bus_lock_detect cldemote movdiri \
    movdir64b enqcmd fsrm md_clear serialize tsxldtrk pconfig arch_lbr ibt amx_bf16 avx512_fp16 amx_tile amx_int8 \
    flush_l1d arch_capabilities";

pub(crate) fn name(number: u32) -> String {
    format!("rack{:03}-{:02}", number / 40, number % 40)
}

fn mac(number: u32, port: u32) -> String {
    let [a, b, c, _] = (number << 8).to_be_bytes();
    format!("52:54:{a:02x}:{b:02x}:{c:02x}:{port:02x}")
}

fn hardware(number: u32) -> HardwareDetails {
    let nics = (0..8).map(|port| Nic {
        name: format!("ens{}f{}np{}", 1 + port / 2, port % 2, port % 2),
        model: "0x15b3 0x101f".to_owned(),
        mac: mac(number, port),
        ip: format!("10.{}.{}.{}", number >> 8 & 0xff, number & 0xff, 10 + port),
        speed_gbps: 25,
        vlans: vec![Vlan { id: 100, name: "provisioning".to_owned() }, Vlan { id: 200, name: "storage".to_owned() }],
        vlan_id: 100,
        pxe: port == 0,
        lldp: Some(Lldp {
            port_id: format!("Ethernet1/{}", number % 40 + 1),
            switch_id: mac(number / 40, 0xfe),
            switch_system_name: format!("leaf-{:03}-{}.example.com", number / 40, port % 2),
        }),
        pci_address: format!("0000:{:02x}:00.{}", 0x31 + port / 2, port % 2),
    });
    let storage = (0..12_u32).map(|disk| {
        let wwn = format!("0x{:016x}", 0x5000_c500_0000_0000 + u64::from(number) * 16 + u64::from(disk));
        Storage {
            name: format!("/dev/disk/by-path/pci-0000:65:00.0-sas-phy{disk}-lun-0"),
            alternate_names: vec![
                format!("/dev/sd{}", char::from(b'a'.saturating_add(u8::try_from(disk).unwrap_or(0)))),
                format!("/dev/disk/by-id/wwn-{wwn}"),
            ],
            rotational: disk > 1,
            type_: Some(if disk > 1 { StorageType::Hdd } else { StorageType::Ssd }),
            size_bytes: if disk > 1 { 16_000_900_661_248 } else { 960_197_124_096 },
            vendor: "SEAGATE".to_owned(),
            model: if disk > 1 { "ST16000NM002G" } else { "XS960SE70084" }.to_owned(),
            serial_number: format!("ZL2{number:05X}{disk:02}0000C9"),
            wwn_vendor_extension: wwn.clone(),
            wwn_with_extension: wwn.clone(),
            wwn,
            hctl: format!("0:0:{disk}:0"),
        }
    });
    HardwareDetails {
        system_vendor: SystemVendor {
            manufacturer: "Dell Inc.".to_owned(),
            product_name: "PowerEdge R760 (SKU=0A6B;ModelName=PowerEdge R760)".to_owned(),
            serial_number: format!("{number:07X}"),
        },
        firmware: FirmwareInfo {
            bios: BiosInfo { date: "04/05/2025".into(), vendor: "Dell Inc.".into(), version: "2.6.3".into() },
        },
        ram_mebibytes: 1_048_576,
        nics: nics.collect(),
        storage: storage.collect(),
        cpu: Cpu {
            arch: "x86_64".to_owned(),
            model: "Intel(R) Xeon(R) Gold 6448Y".to_owned(),
            clock_megahertz: 4100.0,
            flags: FLAGS.split_whitespace().map(str::to_owned).collect(),
            count: 128,
        },
        hostname: format!("{}.example.com", name(number)),
    }
}

/// What its owner wrote.
pub(crate) fn host(number: u32) -> Value {
    let name = name(number);
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": "default", "labels": {"rack": format!("{:03}", number / 40)}},
        "spec": {
            "online": true,
            "bootMACAddress": mac(number, 0),
            "bootMode": "UEFI",
            "bmc": {
                "address": format!("redfish://10.{}.{}.5/redfish/v1/Systems/System.Embedded.1", number >> 8, number & 0xff),
                "credentialsName": format!("{name}-bmc"),
            },
            "rootDeviceHints": {"rotational": false, "minSizeGigabytes": 400},
        },
    })
}

/// Its BMC's credentials.
pub(crate) fn secret(number: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("{}-bmc", name(number)), "namespace": "default"},
        "stringData": {"username": "root", "password": "calvin"},
    })
}

/// The time in a status, which is what updates change: twenty letters.
pub(crate) fn moment(second: u64) -> String {
    let second = i64::try_from(second % 1_000_000_000).unwrap_or_default();
    jiff::Timestamp::from_second(1_700_000_000 + second).map(|time| time.to_string()).unwrap_or_default()
}

/// How it is: inspected and available.
pub(crate) fn status(number: u32) -> Value {
    let credentials = json!({
        "credentials": {"name": format!("{}-bmc", name(number)), "namespace": "default"}, "credentialsVersion": "4711",
    });
    let metric = |second| json!({"start": moment(second), "end": moment(second + 60)});
    json!({
        "operationalStatus": "OK", "errorMessage": "", "errorCount": 0, "provisioningFailCount": 0, "poweredOn": true,
        "goodCredentials": credentials, "triedCredentials": credentials,
        "hardwareProfile": "unknown",
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Available", "message": "the host can be used",
            "lastTransitionTime": moment(0), "observedGeneration": 1,
        }],
        "hardware": hardware(number),
        "lastUpdated": moment(u64::from(number)),
        "operationHistory": {
            "register": metric(0), "inspect": metric(60), "provision": metric(300), "deprovision": metric(0),
        },
        "provisioning": {
            "state": "available", "ID": format!("0f0f0f0f-0000-4000-8000-{number:012x}"), "bootMode": "UEFI",
            "image": {"url": ""}, "rootDeviceHints": {"rotational": false, "minSizeGigabytes": 400},
        },
    })
}

pub(crate) fn hardware_data(number: u32) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HardwareData",
        "metadata": {"name": name(number), "namespace": "default"},
        "spec": {"hardware": hardware(number)},
    })
}
