//! The forms of a hand-off: what stands on the disk afterwards, as others read it, and what the receipt says of it.

#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use std::{fs, os::unix::fs::symlink, path::Path, process::Command, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use firesteel_facts::Sha256;
use firesteel_images::write::gpt;
use firesteel_steps::{Exit, board::ReportBoard};
use firesteel_wire::hand_off::{BootPartition, Forms, HandOffForm, HandOffVolume, KernelArgumentEdit, LoaderFile};
use firesteel_wire::receipt::FileReadBack;
use firesteel_wire::{Evidence, HandOffFile, PlanStep, StepReport};

use crate::host::{DISK_BYTES, Image, SimulatedHost, SmallDisk, put_ext4};
use crate::{Appliance, Running, handover, start_on};

const MIB: u64 = 1 << 20;
/// Room for a config drive of 64 MiB behind the image.
pub(crate) const LARGE_BYTES: u64 = 128 * MIB;
const ENTRY: &str = "title CoreOS\nversion 1\noptions root=UUID=1 $ignition_firstboot ignition.platform.id=PLATFORM quiet\nlinux /ostree/vmlinuz\n";
/// A secret of the user, which no receipt may show.
const SECRET: &str = "s3cr3t-of-the-user";
/// Mounts of the boot partition by a hand-off that writes there and reads back.
pub(crate) const WRITTEN_ONCE: [&str; 4] = ["target ext4 rw", "unmounted", "target ext4 ro", "unmounted"];

/// What the kernel mounted, and that it was unmounted.
pub(crate) fn mounts(host: &SimulatedHost) -> Vec<String> {
    host.mounts.lock().unwrap().clone()
}

pub(crate) fn start(disk_bytes: u64, image: Image) -> Running {
    let appliance = Appliance::start();
    let handover = handover(&appliance, &appliance.pin_sha256);
    start_on(SimulatedHost::with_target(disk_bytes), image, appliance, &handover, ReportBoard::new(None))
}

fn file(path: &str, content: &str) -> HandOffFile {
    HandOffFile { path: path.into(), mode: 0o600, content_base64: STANDARD.encode(content) }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn arguments(append: &[&str], delete: &[&str]) -> Option<KernelArgumentEdit> {
    Some(KernelArgumentEdit { append: words(append), delete: words(delete) })
}

pub(crate) fn config_drive() -> HandOffVolume {
    let files = vec![
        file("openstack/latest/user_data", &format!("#cloud-config\npassword: {SECRET}\n")),
        file("openstack/latest/meta_data.json", r#"{"uuid":"1"}"#),
        file("openstack/latest/network_data.json", "{}"),
    ];
    HandOffVolume { volume_id: 0x0102_0304, files }
}

fn no_cloud() -> HandOffVolume {
    let files = vec![file("user-data", "#cloud-config\n"), file("meta-data", "instance-id: 1\n")];
    HandOffVolume { volume_id: 7, files }
}

/// Everything that an appliance may have for a host.
pub(crate) fn auto() -> Forms {
    let files = vec![file("ignition/config.ign", "{}"), file("ignition.firstboot", "")];
    Forms {
        form: HandOffForm::Auto,
        boot_partition: Some(BootPartition { files, network: words(&["rd.neednet=1", "ip=dhcp"]) }),
        config_drive: Some(config_drive()),
        no_cloud: Some(no_cloud()),
        ..Forms::default()
    }
}

pub(crate) fn kernel_arguments(append: &[&str], delete: &[&str]) -> Forms {
    Forms { form: HandOffForm::KernelArguments, kernel_arguments: arguments(append, delete), ..Forms::default() }
}

/// Gives the image the files that are in its folders, as far as they will be looked for.
pub(crate) fn bake(run: &mut Running, forms: &Forms) {
    if forms.form == HandOffForm::Auto || forms.arguments.is_some() || forms.kernel_arguments.is_some() {
        run.image = run.image.filled_by(&run.host);
        run.appliance.put_image(run.image.stream.clone());
    }
}

fn plan(run: &mut Running, forms: Forms) {
    bake(run, &forms);
    send_plan(run, forms);
}

pub(crate) fn send_plan(run: &Running, forms: Forms) {
    let disk = run.host.identity_of("target");
    let hand_off = PlanStep::HandOff { disk, files: Vec::new(), forms: Some(Box::new(forms)) };
    run.plan(1, vec![run.write_step(), hand_off, PlanStep::Reboot]);
}

/// What a receipt says of a hand-off.
pub(crate) struct HandedOver {
    device: String,
    files: Vec<FileReadBack>,
    pub(crate) form: HandOffForm,
    pub(crate) recognised: String,
    pub(crate) warnings: String,
    pub(crate) loader: Vec<LoaderFile>,
}

/// Runs the hand-off to its end. Its receipt, and what is on the disk.
pub(crate) fn hand_over(mut run: Running, forms: Forms) -> (HandedOver, Vec<u8>) {
    plan(&mut run, forms);
    let Running { appliance, host, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::Reboot);
    let last = appliance.last_report().unwrap();
    assert!(!format!("{last:?}").contains(SECRET) && !serde_json::to_string(&last).unwrap().contains(SECRET));
    let failed: Vec<_> = last.steps.iter().filter(|step| !step.error.is_empty()).map(|step| &step.error).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let Evidence::FilesHandedOff { device, files, form, recognised, warnings, loader, .. } =
        last.receipts.into_iter().nth(1).unwrap().evidence
    else {
        panic!("no receipt of the hand-off")
    };
    host.assert_decoy_untouched();
    let (recognised, warnings) = (recognised.join("\n"), warnings.join("\n"));
    (HandedOver { device, files, form: form.unwrap(), recognised, warnings, loader }, host.read("target"))
}

/// Runs a hand-off that fails, and leaves nothing to boot.
pub(crate) fn fail(mut run: Running, forms: Forms) -> StepReport {
    plan(&mut run, forms);
    end_failed(run)
}

/// The end of a plan whose hand-off fails.
pub(crate) fn end_failed(run: Running) -> StepReport {
    let failed = run.wait_for_failure();
    assert_eq!((failed.step.as_str(), failed.disk_changed), ("hand-off", true), "{}", failed.error);
    run.abort();
    let Running { host, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::Reboot);
    let disk = host.read("target");
    let edge = 1 << 20;
    assert!(disk[..edge].iter().chain(&disk[disk.len() - edge..]).all(|&byte| byte == 0), "something would boot");
    host.assert_decoy_untouched();
    failed
}

pub(crate) fn assert_says(failed: &StepReport, parts: &[&str]) {
    for part in parts {
        assert!(failed.error.contains(part), "no {part:?} in: {}", failed.error);
    }
}

/// Reads a file out of a FAT volume with mtools; says so where they are not installed.
fn assert_fat(disk: &[u8], offset: u64, bytes: u64, files: &[HandOffFile], label: &str) {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("volume");
    let start = usize::try_from(offset).unwrap();
    fs::write(&image, &disk[start..start + usize::try_from(bytes).unwrap()]).unwrap();
    if !Path::new("/usr/bin/mtype").exists() {
        println!("skipped: mtools are not installed");
        return;
    }
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let image = image.to_str().unwrap();
    for file in files {
        let read = run("mtype", &["-i", image, &format!("::{}", file.path)]);
        assert!(read == STANDARD.decode(&file.content_base64).unwrap(), "{}", file.path);
    }
    let listed = String::from_utf8_lossy(&run("mdir", &["-i", image, "::"])).into_owned();
    assert!(listed.contains(&format!("Volume in drive : is {label}")), "{listed}");
}

fn assert_digests(outcome: &HandedOver, files: &[HandOffFile]) {
    let expected: Vec<_> = files
        .iter()
        .map(|file| {
            let content = STANDARD.decode(&file.content_base64).unwrap();
            let sha256 = Sha256::of(&content).to_string();
            FileReadBack { path: file.path.clone(), bytes: content.len() as u64, sha256 }
        })
        .collect();
    assert_eq!(outcome.files, expected);
}

pub(crate) fn put_entry(run: &Running, platform: &str) {
    let entries = run.host.filesystem(2).join("loader.1/entries");
    fs::create_dir_all(&entries).unwrap();
    fs::write(entries.join("ostree-1.conf"), ENTRY.replace("PLATFORM", platform)).unwrap();
    symlink("loader.1", run.host.filesystem(2).join("loader")).unwrap();
    // As the boot partitions of Fedora have it.
    symlink(".", run.host.filesystem(2).join("boot")).unwrap();
}

pub(crate) fn entry(run: &Running) -> std::path::PathBuf {
    run.host.filesystem(2).join("loader.1/entries/ostree-1.conf")
}

#[test]
fn a_config_drive_is_added_at_the_end_and_read_by_others() {
    let run = start(LARGE_BYTES, Image::new());
    let forms = Forms { form: HandOffForm::ConfigDrive, config_drive: Some(config_drive()), ..Forms::default() };
    let (outcome, disk) = hand_over(run, forms);
    assert_eq!(
        (outcome.form, outcome.device.ends_with("target-p3")),
        (HandOffForm::ConfigDrive, true),
        "{}",
        outcome.device
    );
    assert_digests(&outcome, &config_drive().files);
    let table = gpt::parse(&disk, 512).unwrap().unwrap();
    let last = table.partitions.last().unwrap();
    assert_eq!((last.name.as_str(), last.size_bytes(512)), ("config-2", 64 * MIB));
    assert_eq!(last.offset_bytes(512), 63 * MIB, "the last whole MiB before the backup table");
    let block = disk.len() / 512 - 1;
    let backup = gpt::parse_backup_header(&disk[block * 512..], block as u64, 512).unwrap().unwrap();
    let entries = usize::try_from(backup.entries_lba).unwrap() * 512;
    assert_eq!(backup.with_entries(&disk[entries..]).unwrap().partitions, table.partitions);
    assert_fat(&disk, last.offset_bytes(512), last.size_bytes(512), &config_drive().files, "config-2");
}

#[test]
fn a_partition_with_the_label_is_taken_as_it_is() {
    let image = Image::with(&[("config-2", 40_960, 49_000)]);
    let run = start(DISK_BYTES, image);
    let before = run.image.raw.clone();
    let forms = Forms { form: HandOffForm::ConfigDrive, config_drive: Some(config_drive()), ..Forms::default() };
    let (outcome, disk) = hand_over(run, forms);
    assert_digests(&outcome, &config_drive().files);
    let table = gpt::parse(&disk, 512).unwrap().unwrap();
    assert_eq!(table.partitions.len(), 3, "none was added");
    assert!(disk[1 << 20..20 << 20] == before[1 << 20..20 << 20], "the others are untouched");
    assert_fat(&disk, 40_960 * 512, 8041 * 512, &config_drive().files, "config-2");
}

/// cloud-init and Ignition take whichever volume has the label, on whatever disk.
#[test]
fn a_volume_of_the_same_label_on_another_disk_is_told() {
    let run = start(LARGE_BYTES, Image::new());
    let mut second = Image::new().raw;
    put_ext4(&mut second, 1 << 20, "config-2");
    fs::write(run.host.folder.path().join("second"), &second).unwrap();
    let host = Arc::clone(&run.host);
    let forms = Forms { form: HandOffForm::ConfigDrive, config_drive: Some(config_drive()), ..Forms::default() };
    let (outcome, _) = hand_over(run, forms);
    for part in ["second (serial serial-second, ", "labelled config-2 too (partition 1)", "unverified"] {
        assert!(outcome.warnings.contains(part), "no {part:?} in: {}", outcome.warnings);
    }
    assert_eq!(outcome.warnings.lines().count(), 1, "{}", outcome.warnings);
    assert!(host.read("second") == second, "it was only looked at");
}

#[test]
fn without_room_for_a_config_drive_it_says_so() {
    let run = start(DISK_BYTES, Image::new());
    let forms = Forms { form: HandOffForm::ConfigDrive, config_drive: Some(config_drive()), ..Forms::default() };
    assert_says(&fail(run, forms), &["no free space of 67108864 bytes", "Use a larger disk", "it boots nothing"]);
}

#[test]
fn an_image_for_metal_is_recognised_and_gets_files_and_network_arguments() {
    let run = start(DISK_BYTES, Image::new());
    put_entry(&run, "metal");
    let (boot, before) = (run.host.filesystem(2), fs::read(entry(&run)).unwrap());
    let host = Arc::clone(&run.host);
    let (outcome, _) = hand_over(run, auto());
    assert_eq!(
        (outcome.form, outcome.recognised.as_str()),
        (HandOffForm::BootPartition, "ignition.platform.id=metal in loader/entries/ostree-1.conf on partition 2")
    );
    assert!(outcome.warnings.is_empty() && outcome.loader.is_empty(), "{}", outcome.warnings);
    assert_eq!(fs::read(boot.join("ignition/config.ign")).unwrap(), b"{}");
    let first_boot = fs::read_to_string(boot.join("ignition.firstboot")).unwrap();
    assert_eq!(first_boot, "set ignition_network_kcmdline=\"rd.neednet=1 ip=dhcp\"\n");
    assert_eq!(fs::read(boot.join("loader/entries/ostree-1.conf")).unwrap(), before, "nothing else is changed");
    assert_eq!(mounts(&host), WRITTEN_ONCE, "the look mounts nothing");
}

#[test]
fn an_image_for_openstack_is_recognised_and_its_config_gets_kernel_arguments_too() {
    let run = start(LARGE_BYTES, Image::new());
    put_entry(&run, "openstack");
    let path = entry(&run);
    let host = Arc::clone(&run.host);
    let forms = Forms { arguments: arguments(&["console=ttyS0", "console=ttyS0"], &["quiet"]), ..auto() };
    let (outcome, disk) = hand_over(run, forms);
    assert_eq!(outcome.form, HandOffForm::ConfigDrive);
    assert!(outcome.recognised.contains("ignition.platform.id=openstack"), "{}", outcome.recognised);
    let text = fs::read_to_string(&path).unwrap();
    let options =
        "options root=UUID=1 $ignition_firstboot ignition.platform.id=openstack console=ttyS0 console=ttyS0\n";
    assert!(text.contains(options), "{text}");
    assert!(
        outcome.warnings.contains("ostree-1.conf on partition 2: console stands more than once"),
        "{}",
        outcome.warnings
    );
    assert!(
        outcome.warnings.contains("$ignition_firstboot") && outcome.warnings.contains("unverified"),
        "{}",
        outcome.warnings
    );
    let [changed] = outcome.loader.as_slice() else { panic!("{:?}", outcome.loader) };
    assert_eq!((changed.file.path.as_str(), changed.changed), ("loader/entries/ostree-1.conf", true));
    assert_eq!(changed.file.sha256, Sha256::of(text.as_bytes()).to_string());
    let last = gpt::parse(&disk, 512).unwrap().unwrap().partitions.pop().unwrap();
    assert_fat(&disk, last.offset_bytes(512), last.size_bytes(512), &config_drive().files, "config-2");
    drop(host);
}

#[test]
fn cloud_init_is_recognised_by_its_sources() {
    let run = start(LARGE_BYTES, Image::with_root());
    let cloud = run.host.filesystem(1).join("etc/cloud/cloud.cfg.d");
    fs::create_dir_all(&cloud).unwrap();
    fs::write(cloud.join("../cloud.cfg"), "users: [default]\n").unwrap();
    fs::write(cloud.join("90_dpkg.cfg"), "datasource_list: [ NoCloud, None ]\n").unwrap();
    let (outcome, disk) = hand_over(run, Forms { boot_partition: None, ..auto() });
    assert_eq!((outcome.form, outcome.warnings.as_str()), (HandOffForm::NoCloud, ""));
    assert_eq!(outcome.recognised, "cloud-init in etc/cloud/cloud.cfg on partition 1, whose sources have NoCloud");
    let last = gpt::parse(&disk, 512).unwrap().unwrap().partitions.pop().unwrap();
    assert_eq!(last.name, "CIDATA");
    assert_fat(&disk, last.offset_bytes(512), last.size_bytes(512), &no_cloud().files, "CIDATA");
}

/// cloud-init passes over what is for Ignition, and the host would run without its configuration.
#[test]
fn user_data_that_nothing_on_the_image_reads_is_refused() {
    let run = start(LARGE_BYTES, Image::with_root());
    let cloud = run.host.filesystem(1).join("etc/cloud");
    fs::create_dir_all(&cloud).unwrap();
    fs::write(cloud.join("cloud.cfg"), "users: [default]\n").unwrap();
    let failed = fail(run, Forms { no_cloud: None, ..auto() });
    assert_says(
        &failed,
        &["read by cloud-init", "etc/cloud/cloud.cfg on partition 1", "is for Ignition", "it boots nothing"],
    );
}

#[test]
fn an_image_that_says_nothing_is_not_guessed_at() {
    let run = start(DISK_BYTES, Image::new());
    let failed = fail(run, auto());
    assert_says(
        &failed,
        &["nothing on the image says", "firesteel.dev/hand-off", "partition 1, \"root\", has no known filesystem"],
    );
}

#[test]
fn grub_cfg_and_entries_get_the_config_url_once() {
    let run = start(DISK_BYTES, Image::with_root());
    let grub = run.host.filesystem(1).join("boot/grub");
    fs::create_dir_all(&grub).unwrap();
    let script = "menuentry 'Debian' {\n\tlinux\t/boot/vmlinuz root=/dev/vda1 ro quiet\n\tinitrd\t/boot/initrd\n}\n";
    fs::write(grub.join("grub.cfg"), script).unwrap();
    put_entry(&run, "metal");
    let (host, entry) = (Arc::clone(&run.host), entry(&run));
    let url = format!("ignition.config.url=https://192.0.2.1:22623/config/worker?token={SECRET}");
    let (outcome, _) = hand_over(run, kernel_arguments(&[&url], &[]));
    assert_eq!((outcome.form, outcome.files.len(), outcome.loader.len()), (HandOffForm::KernelArguments, 0, 2));
    assert!(outcome.loader.iter().all(|file| file.changed));
    let script = fs::read_to_string(host.filesystem(1).join("boot/grub/grub.cfg")).unwrap();
    assert!(script.contains(&format!("ro quiet '{url}'\n\tinitrd")), "{script}");
    assert!(fs::read_to_string(entry).unwrap().contains(&format!("quiet {url}\nlinux")));
}

#[test]
fn where_nothing_changes_a_full_boot_partition_is_no_obstacle() {
    let run = start(DISK_BYTES, Image::new());
    let boot = SmallDisk::over(run.host.filesystem(2), 64);
    put_entry(&run, "metal");
    boot.fill();
    let host = Arc::clone(&run.host);
    let (outcome, _) = hand_over(run, kernel_arguments(&["ignition.platform.id=metal"], &["rhgb"]));
    assert!(matches!(outcome.loader.as_slice(), [file] if !file.changed), "{:?}", outcome.loader);
    assert_eq!(mounts(&host), Vec::<String>::new(), "what is not written is not mounted");
    drop(boot);
}

#[test]
fn a_change_that_does_not_fit_leaves_nothing_to_boot() {
    let run = start(DISK_BYTES, Image::new());
    let boot = SmallDisk::over(run.host.filesystem(2), 64);
    put_entry(&run, "metal");
    boot.fill();
    let failed = fail(run, kernel_arguments(&["ip=dhcp"], &[]));
    assert_says(
        &failed,
        &["partition 2 is full: loader/entries/ostree-1.conf", "Use an image with a larger boot partition"],
    );
    drop(boot);
}

#[test]
fn a_line_that_cannot_be_understood_is_named() {
    let run = start(DISK_BYTES, Image::new());
    let grub = run.host.filesystem(2).join("grub2");
    fs::create_dir_all(&grub).unwrap();
    fs::write(grub.join("grub.cfg"), "set a=b\nlinux /vmlinuz root=1 \\\n  quiet\n").unwrap();
    let failed = fail(run, kernel_arguments(&["ip=dhcp"], &[]));
    assert_says(&failed, &["grub2/grub.cfg on partition 2", "line 2 cannot be understood", "goes on in another line"]);
}

#[test]
fn an_image_without_a_boot_loader_to_change_says_where_it_was_looked_for() {
    let run = start(DISK_BYTES, Image::new());
    fs::create_dir_all(run.host.filesystem(2).join("EFI/Linux")).unwrap();
    fs::write(run.host.filesystem(2).join("EFI/Linux/a.efi"), "MZ").unwrap();
    let failed = fail(run, kernel_arguments(&["ip=dhcp"], &[]));
    assert_says(
        &failed,
        &["no boot loader whose kernel arguments can be changed", "found on partition 2", "are sealed"],
    );
}

/// A boot loader may start the kernel whose arguments are sealed: a config that only they lead to would not be found.
#[test]
fn a_unified_kernel_image_beside_an_entry_is_not_passed_over() {
    let with_both = || {
        let run = start(DISK_BYTES, Image::new());
        put_entry(&run, "metal");
        fs::create_dir_all(run.host.filesystem(2).join("EFI/Linux")).unwrap();
        fs::write(run.host.filesystem(2).join("EFI/Linux/a.efi"), "MZ").unwrap();
        run
    };
    let failed = fail(with_both(), kernel_arguments(&["ignition.config.url=http://a"], &[]));
    assert_says(&failed, &["partition 2 has unified kernel images", "the configuration is not found"]);
    let forms = Forms { form: HandOffForm::BootPartition, arguments: arguments(&["nosmt"], &[]), ..auto() };
    let (outcome, _) = hand_over(with_both(), forms);
    assert_eq!(outcome.loader.len(), 1);
    assert!(
        outcome.warnings.contains("unified kernel images") && outcome.warnings.contains("unverified"),
        "{}",
        outcome.warnings
    );
}

/// Entries of RHEL 8: what they have in common stands in GRUB's environment block, which lies on another partition
/// with UEFI and is reached by a link with BIOS.
#[test]
fn arguments_of_all_entries_go_to_the_environment_block() {
    let run = start(DISK_BYTES, Image::new());
    let boot = run.host.filesystem(2);
    for folder in ["loader/entries", "grub2", "state"] {
        fs::create_dir_all(boot.join(folder)).unwrap();
    }
    let entry = "title RHEL\nlinux /vmlinuz\noptions $kernelopts $tuned_params\n";
    fs::write(boot.join("loader/entries/a.conf"), entry).unwrap();
    let block =
        format!("{:#<1024}", "# GRUB Environment Block\nsaved_entry=a\nkernelopts=root=/dev/sda2 ro rhgb quiet \n");
    fs::write(boot.join("state/grubenv"), &block).unwrap();
    symlink("/state/grubenv", boot.join("grub2/grubenv")).unwrap();
    let host = Arc::clone(&run.host);
    let (outcome, _) = hand_over(run, kernel_arguments(&["ip=dhcp"], &["rhgb"]));
    let boot = host.filesystem(2);
    let changed = fs::read_to_string(boot.join("state/grubenv")).unwrap();
    assert_eq!(changed.len(), 1024, "GRUB writes it by the places of its blocks");
    assert!(changed.contains("\nkernelopts=root=/dev/sda2 ro quiet ip=dhcp\n#"), "{changed}");
    assert_eq!(fs::read_to_string(boot.join("loader/entries/a.conf")).unwrap(), entry);
    let states: Vec<_> = outcome.loader.iter().map(|file| (file.file.path.as_str(), file.changed)).collect();
    assert_eq!(states, [("grub2/grubenv", true), ("loader/entries/a.conf", false)]);
    assert!(
        outcome.warnings.contains("$tuned_params") && !outcome.warnings.contains("$kernelopts"),
        "{}",
        outcome.warnings
    );
}
