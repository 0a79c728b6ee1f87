//! What a hand-off is to do, read from its step and checked before anything is touched.

use anyhow::{Context, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use firesteel_wire::HandOffFile;
use firesteel_wire::hand_off::{
    BootPartition, FIRST_BOOT, Forms, HandOffError, HandOffForm, HandOffVolume, KernelArgumentEdit, check_files,
};
use firesteel_wire::limits::HAND_OFF_FILE_BYTES_MAX;

use crate::forms::form_detection::FirstBootReader;

/// The user data of a config drive.
const DRIVE_USER_DATA: &str = "openstack/latest/user_data";

/// A file with its content.
pub(super) struct HandOffContent {
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

/// A volume to be made.
pub(super) struct ConfigDriveOrder {
    pub(super) volume_id: u32,
    pub(super) contents: Vec<HandOffContent>,
}

pub(super) struct HandOffOrder {
    pub(super) form: HandOffForm,
    pub(super) offers: Vec<HandOffForm>,
    /// Whom the user data is for, where there is some.
    pub(super) reader: Option<FirstBootReader>,
    pub(super) boot: Vec<HandOffContent>,
    pub(super) config_drive: Option<ConfigDriveOrder>,
    pub(super) no_cloud: Option<ConfigDriveOrder>,
    /// Those by which the system finds its configuration.
    kernel_arguments: KernelArgumentEdit,
    /// Those that are set in any form.
    arguments: KernelArgumentEdit,
}

impl HandOffOrder {
    pub(super) fn read(files: &[HandOffFile], forms: Option<&Forms>) -> anyhow::Result<Self> {
        let Some(forms) = forms else {
            check_files("files", files)?;
            return Ok(Self::of_files(contents(files)?));
        };
        if !files.is_empty() {
            bail!(HandOffError::Twice);
        }
        forms.check()?;
        Ok(Self {
            form: forms.form,
            offers: forms.offers(),
            reader: reader(forms),
            boot: forms.boot_partition.as_ref().map(boot).transpose()?.unwrap_or_default(),
            config_drive: forms.config_drive.as_ref().map(drive).transpose()?,
            no_cloud: forms.no_cloud.as_ref().map(drive).transpose()?,
            kernel_arguments: forms.kernel_arguments.clone().unwrap_or_default(),
            arguments: forms.arguments.clone().unwrap_or_default(),
        })
    }

    fn of_files(boot: Vec<HandOffContent>) -> Self {
        Self {
            form: HandOffForm::BootPartition,
            offers: vec![HandOffForm::BootPartition],
            reader: Some(FirstBootReader::Ignition),
            boot,
            config_drive: None,
            no_cloud: None,
            kernel_arguments: KernelArgumentEdit::default(),
            arguments: KernelArgumentEdit::default(),
        }
    }

    /// The kernel arguments that are to be changed where this form is taken.
    pub(super) fn arguments_for(&self, form: HandOffForm) -> KernelArgumentEdit {
        let mut all = self.arguments.clone();
        if form == HandOffForm::KernelArguments {
            let missing = |own: &[String], more: &[String]| {
                more.iter().filter(|one| !own.contains(one)).cloned().collect::<Vec<_>>()
            };
            all.append.extend(missing(&self.arguments.append, &self.kernel_arguments.append));
            all.delete.extend(missing(&self.arguments.delete, &self.kernel_arguments.delete));
        }
        all
    }

    /// What of the image must be looked into.
    pub(super) fn scope(&self) -> SurveyScope {
        if self.form == HandOffForm::Auto {
            SurveyScope::Signs
        } else if is_some(&self.arguments_for(self.form)) {
            SurveyScope::LoaderFiles
        } else {
            SurveyScope::Nothing
        }
    }
}

/// What of an image is looked into. What is not needed is not read: the maker of the image chose each of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SurveyScope {
    /// The form is named, and no kernel argument changes.
    Nothing,
    /// The form is named, and kernel arguments change in the boot loader's files.
    LoaderFiles,
    /// The form is to be recognised.
    Signs,
}

pub(super) fn is_some(arguments: &KernelArgumentEdit) -> bool {
    !arguments.append.is_empty() || !arguments.delete.is_empty()
}

/// Only Ignition's config goes onto a boot partition; without one, user data is for cloud-init.
fn reader(forms: &Forms) -> Option<FirstBootReader> {
    let has_user_data = |drive: &HandOffVolume| drive.files.iter().any(|file| file.path == DRIVE_USER_DATA);
    match (&forms.boot_partition, &forms.config_drive) {
        (Some(_), _) => Some(FirstBootReader::Ignition),
        (None, Some(drive)) if has_user_data(drive) => Some(FirstBootReader::CloudInit),
        (None, _) => None,
    }
}

fn drive(volume: &HandOffVolume) -> anyhow::Result<ConfigDriveOrder> {
    Ok(ConfigDriveOrder { volume_id: volume.volume_id, contents: contents(&volume.files)? })
}

fn contents(files: &[HandOffFile]) -> anyhow::Result<Vec<HandOffContent>> {
    files.iter().map(content).collect()
}

fn content(file: &HandOffFile) -> anyhow::Result<HandOffContent> {
    let bytes =
        STANDARD.decode(&file.content_base64).with_context(|| format!("reading the content of {}", file.path))?;
    if bytes.len() > HAND_OFF_FILE_BYTES_MAX {
        bail!("{} has {} bytes; at most {HAND_OFF_FILE_BYTES_MAX} are handed over", file.path, bytes.len());
    }
    Ok(HandOffContent { path: file.path.clone(), mode: file.mode, bytes })
}

/// The files of a boot partition, with its network arguments.
fn boot(boot: &BootPartition) -> anyhow::Result<Vec<HandOffContent>> {
    let mut contents = contents(&boot.files)?;
    let Some(text) = boot.first_boot() else { return Ok(contents) };
    let place = contents.iter().position(|content| content.path == FIRST_BOOT);
    let mut first_boot = match place {
        Some(place) => contents.remove(place),
        None => HandOffContent { path: FIRST_BOOT.to_owned(), mode: 0o644, bytes: Vec::new() },
    };
    if !first_boot.bytes.is_empty() {
        bail!("{FIRST_BOOT} has a content of its own, so it cannot take the network arguments as well");
    }
    first_boot.bytes = text.into_bytes();
    // Last: without it the OS would not look for a config at all.
    contents.push(first_boot);
    Ok(contents)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn file(path: &str, content: &str) -> HandOffFile {
        HandOffFile { path: path.into(), mode: 0o644, content_base64: STANDARD.encode(content) }
    }

    fn on_boot(files: Vec<HandOffFile>, network: &[&str]) -> Forms {
        let network = network.iter().map(|&word| word.to_owned()).collect();
        let boot_partition = Some(BootPartition { files, network });
        Forms { form: HandOffForm::BootPartition, boot_partition, ..Forms::default() }
    }

    #[test]
    fn network_arguments_stand_as_coreos_installer_writes_them() {
        let files = vec![file("ignition.firstboot", ""), file("ignition/config.ign", "{}")];
        let order = HandOffOrder::read(&[], Some(&on_boot(files, &["rd.neednet=1", "ip=dhcp"]))).unwrap();
        let paths: Vec<_> = order.boot.iter().map(|content| content.path.as_str()).collect();
        assert_eq!(paths, ["ignition/config.ign", "ignition.firstboot"], "it comes last");
        assert_eq!(order.boot[1].bytes, b"set ignition_network_kcmdline=\"rd.neednet=1 ip=dhcp\"\n");
        let order = HandOffOrder::read(&[], Some(&on_boot(Vec::new(), &["ip=dhcp"]))).unwrap();
        assert_eq!((order.boot[0].path.as_str(), order.boot[0].mode), ("ignition.firstboot", 0o644));
        let filled = on_boot(vec![file("ignition.firstboot", "set a=b")], &["ip=dhcp"]);
        assert!(HandOffOrder::read(&[], Some(&filled)).is_err());
    }

    #[test]
    fn what_cannot_be_done_is_refused_before_anything_is_touched() {
        let refused =
            |files: &[HandOffFile], forms: Option<&Forms>| HandOffOrder::read(files, forms).err().unwrap().to_string();
        assert!(refused(&[file("../etc/passwd", "")], None).contains("../etc/passwd"));
        let both = refused(&[file("a", "")], Some(&on_boot(vec![file("b", "")], &[])));
        assert!(both.contains("both"), "{both}");
        assert!(refused(&[], Some(&on_boot(Vec::new(), &["ip=$x"]))).contains("boot_partition.network"));
        let base64 = HandOffFile { content_base64: "?".into(), ..file("secret", "") };
        assert!(refused(&[base64], None).contains("reading the content of secret"));
        assert!(refused(&[], Some(&Forms::default())).contains("nothing for it"));
    }

    #[test]
    fn whom_the_user_data_is_for_is_told_by_the_forms() {
        let drive = |path: &str| HandOffVolume { volume_id: 1, files: vec![file(path, "x")] };
        let of = |boot: bool, path: &str| {
            let boot_partition = boot.then(|| BootPartition { files: vec![file("a", "b")], network: Vec::new() });
            let forms = Forms { boot_partition, config_drive: Some(drive(path)), ..Forms::default() };
            HandOffOrder::read(&[], Some(&forms)).unwrap().reader
        };
        assert_eq!(of(true, DRIVE_USER_DATA), Some(FirstBootReader::Ignition));
        assert_eq!(of(false, DRIVE_USER_DATA), Some(FirstBootReader::CloudInit));
        assert_eq!(of(false, "openstack/latest/meta_data.json"), None);
    }

    #[test]
    fn arguments_of_the_form_and_of_the_config_go_together() {
        let arguments = |append: &[&str]| {
            Some(KernelArgumentEdit {
                append: append.iter().map(|&word| word.to_owned()).collect(),
                delete: Vec::new(),
            })
        };
        let forms = Forms {
            form: HandOffForm::KernelArguments,
            kernel_arguments: arguments(&["ignition.config.url=u", "ip=dhcp"]),
            arguments: arguments(&["ip=dhcp", "console=ttyS0"]),
            ..Forms::default()
        };
        let order = HandOffOrder::read(&[], Some(&forms)).unwrap();
        assert_eq!(order.scope(), SurveyScope::LoaderFiles);
        let all = order.arguments_for(HandOffForm::KernelArguments).append;
        assert_eq!(all, ["ip=dhcp", "console=ttyS0", "ignition.config.url=u"]);
        assert_eq!(order.arguments_for(HandOffForm::ConfigDrive).append, ["ip=dhcp", "console=ttyS0"]);
    }

    #[test]
    fn where_the_form_is_named_nothing_is_looked_into_for_signs() {
        let plain = HandOffOrder::read(&[file("a", "")], None).unwrap();
        assert_eq!(plain.scope(), SurveyScope::Nothing);
        let drive = |form| {
            let volume = HandOffVolume { volume_id: 1, files: vec![file("user-data", "")] };
            let forms = Forms { form, config_drive: Some(volume.clone()), no_cloud: Some(volume), ..Forms::default() };
            HandOffOrder::read(&[], Some(&forms)).unwrap()
        };
        for form in [HandOffForm::ConfigDrive, HandOffForm::NoCloud] {
            assert_eq!(drive(form).scope(), SurveyScope::Nothing);
        }
        assert_eq!(drive(HandOffForm::Auto).scope(), SurveyScope::Signs);
    }
}
