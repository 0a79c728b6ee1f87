//! The forms in which an installed system finds its first configuration. The contents come ready from the appliance;
//! the plan says which form an image wants, or the agent recognises it on the image.
//!
//! | form | what the image reads | who reads it |
//! |---|---|---|
//! | boot partition | `ignition/config.ign`, `ignition.firstboot` | Ignition, platform `metal` |
//! | kernel arguments | `ignition.config.url=` of the installed boot loader | Ignition, platform `metal` |
//! | config drive | a partition labelled `config-2` | Ignition, platform `openstack`; cloud-init |
//! | NoCloud | a partition labelled `CIDATA` | cloud-init |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::{
    ARGUMENTS_MAX, COMMAND_LINE_BYTES_MAX, HAND_OFF_BYTES_MAX, HAND_OFF_FILES_MAX, HAND_OFF_PATH_BYTES_MAX,
    NETWORK_ARGUMENTS_BYTES_MAX,
};
use crate::plan::HandOffFile;
use crate::receipt::FileReadBack;

/// Which form is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandOffForm {
    /// The one that the image is recognised to want, of those that the plan has contents for.
    #[default]
    Auto,
    BootPartition,
    KernelArguments,
    ConfigDrive,
    NoCloud,
}

impl HandOffForm {
    /// The form's name in plans and receipts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            HandOffForm::Auto => "auto",
            HandOffForm::BootPartition => "boot_partition",
            HandOffForm::KernelArguments => "kernel_arguments",
            HandOffForm::ConfigDrive => "config_drive",
            HandOffForm::NoCloud => "no_cloud",
        }
    }
}

impl std::fmt::Display for HandOffForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HandOffForm::Auto => "the form that the image wants",
            HandOffForm::BootPartition => "files on the boot partition",
            HandOffForm::KernelArguments => "kernel arguments of the boot loader",
            HandOffForm::ConfigDrive => "a config drive (config-2)",
            HandOffForm::NoCloud => "a NoCloud volume (CIDATA)",
        })
    }
}

/// A hand-off in another form than plain files on the boot partition. Each form has what it needs; `auto` may have
/// several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Forms {
    pub form: HandOffForm,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_partition: Option<BootPartition>,
    /// Arguments by which the system finds its config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_arguments: Option<KernelArgumentEdit>,
    /// Files from `openstack/latest/` on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_drive: Option<HandOffVolume>,
    /// `user-data`, `meta-data`, `network-config`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_cloud: Option<HandOffVolume>,
    /// Kernel arguments that the config wants, for a system that cannot set them itself. In any form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<KernelArgumentEdit>,
}

/// The file by which the boot loader of an image asks Ignition to run, and takes network arguments from.
pub const FIRST_BOOT: &str = "ignition.firstboot";

/// Files on the boot partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BootPartition {
    pub files: Vec<HandOffFile>,
    /// Network arguments of the first boot alone; they go into `ignition.firstboot`, which must then be empty or
    /// absent among the files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
}

impl BootPartition {
    /// The content of [`FIRST_BOOT`] where there are network arguments, as coreos-installer writes it and rdcore reads
    /// it: one line, and nothing beside it.
    #[must_use]
    pub fn first_boot(&self) -> Option<String> {
        let words = self.network.join(" ");
        (!self.network.is_empty()).then(|| format!("set ignition_network_kcmdline=\"{words}\"\n"))
    }
}

/// Kernel arguments to change: first those to delete, then those to append. Both may be done already.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelArgumentEdit {
    /// Each stands afterwards at least as often as it is named here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub append: Vec<String>,
    /// Each stands nowhere afterwards, as long as it is not appended again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<String>,
}

/// An argument may hold a URL with a host's config token, so only names show.
impl std::fmt::Debug for KernelArgumentEdit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = |arguments: &[String]| arguments.iter().map(|one| name_of(one).to_owned()).collect::<Vec<_>>();
        let (append, delete) = (names(&self.append), names(&self.delete));
        f.debug_struct("KernelArgumentEdit").field("append", &append).field("delete", &delete).finish()
    }
}

/// A small FAT volume at the end of the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOffVolume {
    /// The number that FAT volumes carry.
    pub volume_id: u32,
    pub files: Vec<HandOffFile>,
}

/// A file of the installed boot loader, as read back from the medium.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderFile {
    /// Partition in this boot, for people.
    pub device: String,
    pub filesystem: String,
    #[serde(flatten)]
    pub file: FileReadBack,
    /// Whether something in it had to change.
    pub changed: bool,
}

/// What is wrong with a hand-off, by its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandOffError {
    #[error("the hand-off has files both for the boot partition alone and in its forms")]
    Twice,
    #[error("the hand-off is to be {0}, and there is nothing for it")]
    Missing(HandOffForm),
    #[error("{field} has {count} entries; at most {most} are taken")]
    TooMany { field: &'static str, count: usize, most: usize },
    #[error(
        "the path {path:?} of {field} is not one below a filesystem's root, of at most {HAND_OFF_PATH_BYTES_MAX} bytes"
    )]
    Path { field: &'static str, path: String },
    #[error("{field} has {path:?} twice")]
    Repeated { field: &'static str, path: String },
    #[error(
        "entry {index} of {field} is no kernel argument that every boot loader's file can hold: one word of printable \
         ASCII without quotes, backslashes, backquotes and dollar signs, at most {COMMAND_LINE_BYTES_MAX} bytes"
    )]
    Argument { field: &'static str, index: usize },
    #[error("the files of the hand-off have {bytes} bytes in base64; at most {HAND_OFF_BYTES_MAX} are handed over")]
    Large { bytes: usize },
    #[error(
        "boot_partition.network has {bytes} bytes with the blanks between; at most {NETWORK_ARGUMENTS_BYTES_MAX} have room \
         on the kernel command line beside the image's own. Give the host fewer links, addresses or routes, or an image \
         that takes a config drive, and say so by the annotation firesteel.dev/hand-off: config-drive"
    )]
    Network { bytes: usize },
}

impl Forms {
    /// Whether the step can be done as it is written, before anything is touched.
    pub fn check(&self) -> Result<(), HandOffError> {
        if let Some(boot) = &self.boot_partition {
            check_files("boot_partition", &boot.files)?;
            check_arguments("boot_partition.network", &boot.network)?;
            // A form that is named and is another one takes none of them.
            if matches!(self.form, HandOffForm::Auto | HandOffForm::BootPartition) {
                check_network(&boot.network)?;
            }
        }
        for (field, volume) in [("config_drive", &self.config_drive), ("no_cloud", &self.no_cloud)] {
            if let Some(volume) = volume {
                check_files(field, &volume.files)?;
            }
        }
        for (field, arguments) in [("kernel_arguments", &self.kernel_arguments), ("arguments", &self.arguments)] {
            if let Some(arguments) = arguments {
                check_arguments(field, &arguments.append)?;
                check_arguments(field, &arguments.delete)?;
            }
        }
        let bytes = self.files().map(|file| file.content_base64.len()).sum();
        if bytes > HAND_OFF_BYTES_MAX {
            return Err(HandOffError::Large { bytes });
        }
        let is_there = match self.form {
            HandOffForm::Auto => !self.offers().is_empty(),
            named @ (HandOffForm::BootPartition
            | HandOffForm::KernelArguments
            | HandOffForm::ConfigDrive
            | HandOffForm::NoCloud) => self.offers().contains(&named),
        };
        if is_there { Ok(()) } else { Err(HandOffError::Missing(self.form)) }
    }

    fn files(&self) -> impl Iterator<Item = &HandOffFile> {
        let boot = self.boot_partition.iter().flat_map(|boot| &boot.files);
        let volumes = self.config_drive.iter().chain(&self.no_cloud).flat_map(|volume| &volume.files);
        boot.chain(volumes)
    }

    /// The forms that there is something for.
    #[must_use]
    pub fn offers(&self) -> Vec<HandOffForm> {
        let all = [
            (HandOffForm::BootPartition, self.boot_partition.is_some()),
            (HandOffForm::KernelArguments, self.kernel_arguments.is_some()),
            (HandOffForm::ConfigDrive, self.config_drive.is_some()),
            (HandOffForm::NoCloud, self.no_cloud.is_some()),
        ];
        all.into_iter().filter(|(_, offered)| *offered).map(|(form, _)| form).collect()
    }
}

/// The name of a kernel argument, which is no secret: `ip` of `ip=dhcp`.
#[must_use]
pub fn name_of(argument: &str) -> &str {
    argument.split_once('=').map_or(argument, |(name, _)| name)
}

/// Checks the files of one form; `field` names it to people.
pub fn check_files(field: &'static str, files: &[HandOffFile]) -> Result<(), HandOffError> {
    check_count(field, files.len(), HAND_OFF_FILES_MAX)?;
    let mut seen = BTreeMap::new();
    for file in files {
        if !is_path(&file.path) {
            return Err(HandOffError::Path { field, path: file.path.chars().take(HAND_OFF_PATH_BYTES_MAX).collect() });
        }
        // FAT knows no difference of case.
        if seen.insert(file.path.to_ascii_lowercase(), ()).is_some() {
            return Err(HandOffError::Repeated { field, path: file.path.clone() });
        }
    }
    Ok(())
}

fn check_arguments(field: &'static str, arguments: &[String]) -> Result<(), HandOffError> {
    check_count(field, arguments.len(), ARGUMENTS_MAX)?;
    match arguments.iter().position(|argument| !is_argument(argument)) {
        None => Ok(()),
        Some(index) => Err(HandOffError::Argument { field, index }),
    }
}

/// The words stand on one command line with the image's own.
fn check_network(words: &[String]) -> Result<(), HandOffError> {
    let bytes = words.iter().map(|word| word.len() + 1).sum::<usize>().saturating_sub(1);
    if bytes > NETWORK_ARGUMENTS_BYTES_MAX { Err(HandOffError::Network { bytes }) } else { Ok(()) }
}

fn check_count(field: &'static str, count: usize, most: usize) -> Result<(), HandOffError> {
    if count > most { Err(HandOffError::TooMany { field, count, most }) } else { Ok(()) }
}

fn is_path(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains(char::is_control);
    path.len() <= HAND_OFF_PATH_BYTES_MAX && path.split('/').all(is_name)
}

/// Whether a kernel argument is one word that every boot loader's file can hold.
#[must_use]
pub fn is_argument(argument: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '"' | '\'' | '\\' | '`' | '$');
    (1..=COMMAND_LINE_BYTES_MAX).contains(&argument.len()) && argument.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> HandOffFile {
        HandOffFile { path: path.into(), mode: 0o600, content_base64: String::new() }
    }

    fn with_argument(argument: &str) -> Forms {
        let arguments = KernelArgumentEdit { append: vec!["ok".into(), argument.into()], delete: Vec::new() };
        Forms { form: HandOffForm::KernelArguments, kernel_arguments: Some(arguments), ..Forms::default() }
    }

    #[test]
    fn a_form_without_contents_and_auto_without_any_are_refused() {
        for form in [
            HandOffForm::Auto,
            HandOffForm::BootPartition,
            HandOffForm::KernelArguments,
            HandOffForm::ConfigDrive,
            HandOffForm::NoCloud,
        ] {
            assert_eq!(Forms { form, ..Forms::default() }.check(), Err(HandOffError::Missing(form)));
        }
        let drive = Some(HandOffVolume { volume_id: 1, files: vec![file("openstack/latest/user_data")] });
        let forms = |form| Forms { form, config_drive: drive.clone(), ..Forms::default() };
        assert_eq!(forms(HandOffForm::Auto).check(), Ok(()));
        assert_eq!(forms(HandOffForm::ConfigDrive).check(), Ok(()));
        assert_eq!(forms(HandOffForm::NoCloud).check(), Err(HandOffError::Missing(HandOffForm::NoCloud)));
    }

    /// The largest config, in two forms, goes into a reply; more would never arrive.
    #[test]
    fn what_fits_into_no_reply_is_refused() {
        let of = |bytes: usize| {
            let content_base64 = "A".repeat(bytes.div_ceil(3) * 4);
            let drive = HandOffVolume { volume_id: 1, files: vec![HandOffFile { content_base64, ..file("a") }] };
            Forms { config_drive: Some(drive.clone()), no_cloud: Some(drive), ..Forms::default() }
        };
        let config = of(2 << 20);
        assert_eq!(config.check(), Ok(()));
        let bytes = serde_json::to_vec(&config).map_or(usize::MAX, |json| json.len());
        assert!(bytes < crate::limits::REPLY_BYTES_MAX - (1 << 20), "{bytes}");
        assert!(matches!(of(3 << 20).check(), Err(HandOffError::Large { bytes }) if bytes == 8 << 20));
    }

    #[test]
    fn arguments_are_single_words_that_no_loader_reads_otherwise() {
        for good in ["quiet", "ip=[fd00::1]:::[64]:h:eth0:none", "ignition.config.url=https://a/b?token=c&d;e", "#x"] {
            assert_eq!(with_argument(good).check(), Ok(()), "{good}");
        }
        let long = "a".repeat(COMMAND_LINE_BYTES_MAX + 1);
        for bad in ["", "a b", "a\tb", "a\n", "a\"b", "it's", "a\\", "$x", "`x`", "é", "a\0", long.as_str()] {
            let refused = HandOffError::Argument { field: "kernel_arguments", index: 1 };
            assert_eq!(with_argument(bad).check(), Err(refused), "{bad:?}");
        }
        let many = KernelArgumentEdit { append: vec!["a".into(); ARGUMENTS_MAX + 1], delete: Vec::new() };
        let forms = Forms { arguments: Some(many), ..with_argument("b") };
        assert!(matches!(forms.check(), Err(HandOffError::TooMany { field: "arguments", .. })));
    }

    /// Each word for itself would be short enough.
    #[test]
    fn network_arguments_have_room_together_beside_the_images_own() {
        let of = |form, last: usize| {
            let network = vec!["ip=".to_owned() + &"a".repeat(696), "b".repeat(last)];
            let boot_partition = Some(BootPartition { files: Vec::new(), network });
            Forms { form, boot_partition, config_drive: Some(HandOffVolume::default()), ..Forms::default() }.check()
        };
        for form in [HandOffForm::Auto, HandOffForm::BootPartition] {
            assert_eq!(of(form, NETWORK_ARGUMENTS_BYTES_MAX - 700), Ok(()));
            let refused = HandOffError::Network { bytes: NETWORK_ARGUMENTS_BYTES_MAX + 1 };
            assert!(refused.to_string().contains("fewer links") && refused.to_string().contains("config-drive"));
            assert_eq!(of(form, NETWORK_ARGUMENTS_BYTES_MAX - 699), Err(refused));
        }
        assert_eq!(of(HandOffForm::ConfigDrive, NETWORK_ARGUMENTS_BYTES_MAX), Ok(()), "they are not handed over");
    }

    #[test]
    fn paths_stay_below_and_stand_once() {
        let check = |paths: &[&str]| check_files("f", &paths.iter().map(|path| file(path)).collect::<Vec<_>>());
        assert_eq!(check(&["openstack/latest/user_data", "user-data"]), Ok(()));
        let long = "a/".repeat(HAND_OFF_PATH_BYTES_MAX);
        for bad in ["", "/etc/passwd", "a/../b", "./a", "a//b", "a/", "a\0b", "a\nb", long.as_str()] {
            assert!(matches!(check(&[bad]), Err(HandOffError::Path { .. })), "{bad:?}");
        }
        assert!(matches!(check(&["User-Data", "user-data"]), Err(HandOffError::Repeated { .. })), "one name on FAT");
    }

    #[test]
    fn tokens_in_arguments_do_not_show() {
        let shown = format!("{:?}", with_argument("ignition.config.url=https://a/b?token=s3cr3t"));
        assert!(shown.contains("ignition.config.url") && !shown.contains("s3cr3t"), "{shown}");
    }
}
