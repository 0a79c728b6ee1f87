//! Which form an image wants, by what was found on it. In the order in which signs are believed:
//!
//! 1. `ignition.platform.id=` on a kernel command line: Ignition goes by nothing else.
//! 2. A partition labelled `config-2` or `CIDATA`: it was made to be filled.
//! 3. Ignition's first boot without a platform: it takes that for `metal`.
//! 4. cloud-init: the sources of its configuration, a config drive first, which is what deployment services write.
//!
//! A warning names signs of different forms, and the first of this order is taken. Both Ignition and cloud-init read
//! config drives, and each passes over what is for the other: a drive whose reader cannot use the user data is refused.

use std::{collections::BTreeMap, fmt};

use firesteel_wire::hand_off::HandOffForm;

/// The label of a config drive, as OpenStack writes and cloud-init and Ignition look for.
pub const CONFIG_DRIVE: &str = "config-2";
/// The label of a NoCloud volume.
pub const NO_CLOUD: &str = "CIDATA";
/// The kernel argument by which an image says what it was made for.
const PLATFORM: &str = "ignition.platform.id=";
/// Platforms whose configuration is handed over here.
const OWN_PLATFORMS: [&str; 2] = ["metal", "openstack"];
/// GRUB's variable and the kernel argument that make Ignition run.
const FIRST_BOOT: [&str; 3] = ["ignition.firstboot", "$ignition_firstboot", "${ignition_firstboot}"];
/// Most sources of cloud-init that are taken from one file; it has about thirty.
const SOURCES_MAX: usize = 64;
/// Most platforms that are kept; more than one is an error or a contradiction already.
const PLATFORMS_MAX: usize = 8;
/// Longest text of a foreign image that is shown.
const SHOWN_CHARS_MAX: usize = 80;

/// What was found on an image. Each with where, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageEvidence {
    /// Labels of partitions and filesystems.
    pub labels: Vec<(String, String)>,
    /// Platforms that the image names itself for.
    pub platforms: BTreeMap<String, String>,
    /// Where Ignition's first boot is asked for.
    pub ignition: Vec<String>,
    pub cloud_init: Vec<CloudInit>,
    pub has_boot_partition: bool,
    /// What could not be looked into, and why.
    pub unread: Vec<String>,
}

/// What reads a configuration at the first boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBootReader {
    Ignition,
    CloudInit,
}

impl fmt::Display for FirstBootReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ignition => "Ignition",
            Self::CloudInit => "cloud-init",
        })
    }
}

/// A sign of a form, and which program reads it where that is known.
struct FormEvidence {
    form: HandOffForm,
    reader: Option<FirstBootReader>,
    words: String,
}

/// cloud-init, as its configuration on the image says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudInit {
    pub place: String,
    /// Names of its sources, in its order; empty where the image does not say which.
    pub sources: Vec<String>,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub form: HandOffForm,
    /// The signs for it, in words.
    pub recognised: Vec<String>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    #[error(
        "nothing on the image says how it takes its configuration: no partition is labelled config-2 or CIDATA, no boot \
         loader has ignition.platform.id, and no filesystem has cloud-init that looks for such a one{}{}. Say which \
         form it takes by the host's annotation firesteel.dev/hand-off",
        list("its sources are others", .cloud_init),
        list("not looked into", .unread)
    )]
    Nothing { cloud_init: Vec<String>, unread: Vec<String> },
    #[error(
        "the image is made for Ignition's platform {platform:?} ({place}), which takes its configuration from a service \
         that is not here. Use an image for `metal` or `openstack`, or say which form it takes by the host's annotation \
         firesteel.dev/hand-off"
    )]
    Platform { platform: String, place: String },
    #[error(
        "the image wants {wanted} ({signs}), and the plan has no contents for that. Give the host user data of that \
         kind, or say by the host's annotation firesteel.dev/hand-off that the image takes another form"
    )]
    NotOffered { wanted: HandOffForm, signs: String },
    #[error(
        "the image's configuration is read by {reader} ({signs}), and the host's user data is for {given}, so that the \
         host would come up without it. Give it user data for {reader}, use an image with {given}, or say by the host's \
         annotation firesteel.dev/hand-off which form it takes"
    )]
    Reader { reader: FirstBootReader, given: FirstBootReader, signs: String },
}

fn list(what: &str, places: &[String]) -> String {
    if places.is_empty() { String::new() } else { format!(" ({what}: {})", places.join("; ")) }
}

impl ImageEvidence {
    /// Whether the sign that is believed before all others is there: what is found later does not change the form.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        OWN_PLATFORMS.iter().any(|platform| self.platforms.contains_key(*platform))
    }

    /// Takes what a command line says. `place` says where it stands.
    pub fn read_arguments<'a>(&mut self, place: &str, arguments: impl IntoIterator<Item = &'a str>) {
        for argument in arguments {
            if let Some(platform) = argument.strip_prefix(PLATFORM) {
                let platform = printable(platform);
                if self.platforms.len() < PLATFORMS_MAX || self.platforms.contains_key(&platform) {
                    self.platforms.entry(platform).or_insert_with(|| place.to_owned());
                }
            } else if FIRST_BOOT.contains(&argument) && !self.ignition.iter().any(|other| other == place) {
                self.ignition.push(place.to_owned());
            }
        }
    }
}

/// Text of an image for people: short, and without letters that move a cursor.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(SHOWN_CHARS_MAX).collect()
}

/// Decides which form the image gets, of those that are offered. `given` is the program that the user data is for,
/// where there is some.
pub fn choose(
    signs: &ImageEvidence,
    offers: &[HandOffForm],
    given: Option<FirstBootReader>,
) -> Result<Choice, ChooseError> {
    let found = all(signs)?;
    let Some(first) = found.first() else {
        let sources = |one: &CloudInit| format!("{}, {}", one.place, printable(&one.sources.join(", ")));
        let cloud_init = signs.cloud_init.iter().map(sources).collect();
        return Err(ChooseError::Nothing { cloud_init, unread: signs.unread.clone() });
    };
    let mut warnings = Vec::new();
    let wanted = match (first.form, offers) {
        // The same platform reads both; without a boot partition there is but one.
        (HandOffForm::BootPartition, offers) if offers.contains(&HandOffForm::KernelArguments) => {
            let is_possible = offers.contains(&HandOffForm::BootPartition) && signs.has_boot_partition;
            if is_possible { HandOffForm::BootPartition } else { HandOffForm::KernelArguments }
        }
        (form, _) => form,
    };
    let of_form = found.iter().filter(|sign| sign.form == first.form);
    let recognised: Vec<String> = of_form.map(|sign| sign.words.clone()).collect();
    if !offers.contains(&wanted) {
        return Err(ChooseError::NotOffered { wanted, signs: recognised.join("; ") });
    }
    if let Some(given) = given {
        is_readable(&found, first, given)?;
    }
    for FormEvidence { form, words: sign, .. } in found.iter().filter(|sign| sign.form != first.form) {
        let offered = if offers.contains(form) { "" } else { ", for which the plan has no contents" };
        warnings.push(format!("{sign} speaks for {form}{offered}; {wanted} was taken, for {}", recognised[0]));
    }
    Ok(Choice { form: wanted, recognised, warnings })
}

/// Whether the program that reads the files is the one that the user data is for. A volume that was made to be filled
/// may be for either; the other signs say for which.
fn is_readable(found: &[FormEvidence], first: &FormEvidence, given: FirstBootReader) -> Result<(), ChooseError> {
    let signs_of_reader: Vec<&FormEvidence> = match first.reader {
        Some(_) => vec![first],
        None => found.iter().filter(|sign| sign.reader.is_some()).collect(),
    };
    let Some(reader) = signs_of_reader.first().and_then(|sign| sign.reader) else { return Ok(()) };
    if signs_of_reader.iter().any(|sign| sign.reader == Some(given)) {
        return Ok(());
    }
    let signs = signs_of_reader.iter().map(|sign| sign.words.as_str()).collect::<Vec<_>>().join("; ");
    Err(ChooseError::Reader { reader, given, signs })
}

/// Every sign with the form that it speaks for, the most believed first.
fn all(signs: &ImageEvidence) -> Result<Vec<FormEvidence>, ChooseError> {
    let mut found = Vec::new();
    let sign = |form: HandOffForm, reader: Option<FirstBootReader>, words: String| FormEvidence { form, reader, words };
    let mut foreign = None;
    for (platform, place) in &signs.platforms {
        let words = format!("{PLATFORM}{platform} in {place}");
        match platform.as_str() {
            "metal" => found.push(sign(HandOffForm::BootPartition, Some(FirstBootReader::Ignition), words)),
            "openstack" => found.push(sign(HandOffForm::ConfigDrive, Some(FirstBootReader::Ignition), words)),
            _ => foreign = foreign.or(Some((platform, place))),
        }
    }
    if let Some((platform, place)) = foreign.filter(|_| found.is_empty()) {
        return Err(ChooseError::Platform { platform: platform.clone(), place: place.clone() });
    }
    for (label, place) in &signs.labels {
        let volumes = [
            (CONFIG_DRIVE, HandOffForm::ConfigDrive, None),
            (NO_CLOUD, HandOffForm::NoCloud, Some(FirstBootReader::CloudInit)),
        ];
        for (known, form, reader) in volumes {
            if label.eq_ignore_ascii_case(known) {
                found.push(sign(form, reader, format!("the label {label} of {place}")));
            }
        }
    }
    if signs.platforms.is_empty() {
        let words = signs.ignition.iter().map(|place| format!("ignition.firstboot in {place}"));
        found.extend(words.map(|words| sign(HandOffForm::BootPartition, Some(FirstBootReader::Ignition), words)));
    }
    for cloud_init in &signs.cloud_init {
        let CloudInit { place, sources } = cloud_init;
        let reads = |names: &[&str]| sources.iter().any(|source| names.contains(&source.as_str()));
        let (form, why) = if sources.is_empty() {
            (HandOffForm::ConfigDrive, "which reads any source".to_owned())
        } else if reads(&["ConfigDrive"]) {
            // Not `OpenStack`: that source asks a service alone, and reads no drive.
            (HandOffForm::ConfigDrive, "whose sources have ConfigDrive".to_owned())
        } else if reads(&["NoCloud", "NoCloudNet"]) {
            (HandOffForm::NoCloud, "whose sources have NoCloud".to_owned())
        } else {
            continue;
        };
        found.push(sign(form, Some(FirstBootReader::CloudInit), format!("cloud-init in {place}, {why}")));
    }
    Ok(found)
}

/// The sources that a file of `/etc/cloud` names: `datasource_list: [ NoCloud, ConfigDrive, None ]`, or the same as
/// lines that begin with `-`. The last such key counts, as it does where files are merged.
#[must_use]
pub fn cloud_sources(text: &str) -> Option<Vec<String>> {
    let is_name = |word: &&str| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric());
    let names = |list: &str| {
        let words = list.split(',').map(|word| word.trim_matches([' ', '\t', '\r', '\'', '"', '[', ']']));
        words.filter(is_name).map(str::to_owned).collect::<Vec<_>>()
    };
    let (mut found, mut lines) = (None, text.lines().peekable());
    while let Some(line) = lines.next() {
        let Some(value) = line.strip_prefix("datasource_list:") else { continue };
        let value = value.split('#').next().unwrap_or_default().trim();
        let mut list = names(value);
        // A list in brackets may go on in the next lines.
        let mut is_open = value.starts_with('[') && !value.contains(']');
        while let Some(line) = lines.next_if(|line| is_open || line.trim_start().starts_with("- ")) {
            let line = line.split('#').next().unwrap_or_default().trim();
            list.extend(names(line.strip_prefix("- ").unwrap_or(line)));
            is_open &= !line.contains(']');
        }
        list.truncate(SOURCES_MAX);
        found = Some(list);
    }
    found
}

/// Entry for fuzzing: any texts are survived, and no text that is shown moves a cursor.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let sources = cloud_sources(&text).unwrap_or_default();
    let mut signs = ImageEvidence { has_boot_partition: bytes.len().is_multiple_of(2), ..ImageEvidence::default() };
    signs.read_arguments("a file", super::arguments::split_arguments(&text).unwrap_or_default());
    let labels =
        text.lines().filter_map(|line| line.strip_prefix("label ")).map(|label| (printable(label), "1".to_owned()));
    signs.labels.extend(labels.take(8));
    signs.cloud_init.push(CloudInit { place: "etc/cloud".to_owned(), sources });
    for offers in [
        &[HandOffForm::BootPartition, HandOffForm::ConfigDrive, HandOffForm::NoCloud, HandOffForm::KernelArguments][..],
        &[],
    ] {
        for given in [None, Some(FirstBootReader::Ignition), Some(FirstBootReader::CloudInit)] {
            let said = match choose(&signs, offers, given) {
                Ok(choice) => {
                    assert!(offers.contains(&choice.form) && !choice.recognised.is_empty());
                    [choice.recognised, choice.warnings].concat().join(" ")
                }
                Err(error) => error.to_string(),
            };
            assert!(!said.contains(char::is_control), "{said:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    const ALL: [HandOffForm; 4] =
        [HandOffForm::BootPartition, HandOffForm::KernelArguments, HandOffForm::ConfigDrive, HandOffForm::NoCloud];

    fn choose(signs: &ImageEvidence, offers: &[HandOffForm]) -> Result<Choice, ChooseError> {
        super::choose(signs, offers, None)
    }

    fn with(arguments: &[&str]) -> ImageEvidence {
        let mut signs = ImageEvidence { has_boot_partition: true, ..ImageEvidence::default() };
        signs.read_arguments("loader/entries/a.conf", arguments.iter().copied());
        signs
    }

    #[test]
    fn a_platform_of_ours_decides_and_nothing_else_does() {
        let with = |platform: &str| {
            let mut signs = ImageEvidence {
                ignition: vec!["a".into()],
                labels: vec![("config-2".into(), "b".into())],
                ..ImageEvidence::default()
            };
            signs.read_arguments("c", [platform]);
            signs.is_decided()
        };
        assert!(with("ignition.platform.id=metal") && with("ignition.platform.id=openstack"));
        assert!(
            !with("ignition.platform.id=aws") && !with("$ignition_firstboot"),
            "a later sign may be believed before it"
        );
    }

    #[test]
    fn a_platform_decides() {
        let metal = choose(&with(&["ignition.platform.id=metal", "$ignition_firstboot"]), &ALL).unwrap();
        assert_eq!((metal.form, metal.warnings.len()), (HandOffForm::BootPartition, 0));
        assert_eq!(metal.recognised, ["ignition.platform.id=metal in loader/entries/a.conf"]);
        let openstack = choose(&with(&["ignition.platform.id=openstack", "$ignition_firstboot"]), &ALL).unwrap();
        assert_eq!((openstack.form, openstack.warnings.len()), (HandOffForm::ConfigDrive, 0));
        let error = choose(&with(&["ignition.platform.id=aws"]), &ALL).unwrap_err();
        assert!(matches!(&error, ChooseError::Platform { platform, .. } if platform == "aws"), "{error}");
        assert!(error.to_string().contains("Use an image for `metal` or `openstack`"), "{error}");
    }

    /// Either passes over what is for the other, and the host comes up without its configuration.
    #[test]
    fn user_data_that_the_image_cannot_read_is_refused() {
        let ignition = with(&["ignition.platform.id=openstack"]);
        let cloud = || CloudInit { place: "etc/cloud".into(), sources: Vec::new() };
        let cloud_init = ImageEvidence { cloud_init: vec![cloud()], ..ImageEvidence::default() };
        let label = || vec![("config-2".to_owned(), "partition 5".to_owned())];
        let (for_ignition, for_cloud_init) =
            ([HandOffForm::BootPartition, HandOffForm::ConfigDrive], [HandOffForm::ConfigDrive, HandOffForm::NoCloud]);
        let form = |signs: &ImageEvidence, offers: &[HandOffForm], given| {
            super::choose(signs, offers, given).map(|choice| choice.form)
        };
        let refused = |signs: &ImageEvidence, offers: &[HandOffForm], given| {
            let error = super::choose(signs, offers, Some(given)).unwrap_err();
            assert!(matches!(&error, ChooseError::Reader { .. }), "{error}");
            error.to_string()
        };
        let told = refused(&cloud_init, &for_ignition, FirstBootReader::Ignition);
        assert!(
            told.contains("read by cloud-init (cloud-init in etc/cloud") && told.contains("is for Ignition"),
            "{told}"
        );
        let told = refused(&ignition, &for_cloud_init, FirstBootReader::CloudInit);
        assert!(told.contains("read by Ignition (ignition.platform.id=openstack"), "{told}");
        for (signs, offers, given) in [
            (&ignition, &for_ignition, FirstBootReader::Ignition),
            (&cloud_init, &for_cloud_init, FirstBootReader::CloudInit),
        ] {
            assert_eq!(form(signs, offers, Some(given)), Ok(HandOffForm::ConfigDrive));
        }
        // Metadata alone suits any reader.
        assert_eq!(form(&ignition, &for_cloud_init, None), Ok(HandOffForm::ConfigDrive));
        // A volume that was made to be filled is for the reader that the other signs name, or for any without one.
        refused(&ImageEvidence { labels: label(), ..cloud_init.clone() }, &for_ignition, FirstBootReader::Ignition);
        let alone = ImageEvidence { labels: label(), ..ImageEvidence::default() };
        assert_eq!(form(&alone, &for_ignition, Some(FirstBootReader::Ignition)), Ok(HandOffForm::ConfigDrive));
        let both = ImageEvidence { labels: label(), ignition: vec!["partition 2".into()], ..cloud_init };
        for given in [FirstBootReader::Ignition, FirstBootReader::CloudInit] {
            assert_eq!(form(&both, &[HandOffForm::ConfigDrive], Some(given)), Ok(HandOffForm::ConfigDrive));
        }
    }

    #[test]
    fn without_a_boot_partition_ignition_is_told_by_kernel_arguments() {
        let mut signs = with(&["ignition.platform.id=metal"]);
        let only = |form| choose(&with(&["ignition.platform.id=metal"]), &[form]).map(|choice| choice.form);
        assert_eq!(only(HandOffForm::BootPartition), Ok(HandOffForm::BootPartition));
        assert_eq!(only(HandOffForm::KernelArguments), Ok(HandOffForm::KernelArguments));
        assert!(matches!(
            only(HandOffForm::NoCloud),
            Err(ChooseError::NotOffered { wanted: HandOffForm::BootPartition, .. })
        ));
        signs.has_boot_partition = false;
        assert_eq!(choose(&signs, &ALL).unwrap().form, HandOffForm::KernelArguments);
    }

    /// An entry of a hostile image may name one with every word.
    #[test]
    fn of_many_platforms_a_few_are_kept() {
        let words: Vec<String> = (0..1000).map(|number| format!("ignition.platform.id={number}")).collect();
        let mut signs = with(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(signs.platforms.len(), PLATFORMS_MAX);
        signs.read_arguments("again", ["ignition.platform.id=0"]);
        assert_eq!(signs.platforms["0"], "loader/entries/a.conf", "the first place is told");
    }

    #[test]
    fn labels_and_cloud_init() {
        let mut signs =
            ImageEvidence { labels: vec![("CONFIG-2".into(), "partition 5".into())], ..ImageEvidence::default() };
        assert_eq!(choose(&signs, &ALL).unwrap().form, HandOffForm::ConfigDrive);
        signs.labels = vec![("cidata".into(), "partition 5".into())];
        assert_eq!(choose(&signs, &ALL).unwrap().form, HandOffForm::NoCloud);
        for (sources, form) in [
            (&[][..], HandOffForm::ConfigDrive),
            (&["NoCloud", "ConfigDrive", "None"], HandOffForm::ConfigDrive),
            (&["OpenStack", "ConfigDrive"], HandOffForm::ConfigDrive),
            (&["NoCloud", "OpenStack"], HandOffForm::NoCloud),
            (&["NoCloud", "None"], HandOffForm::NoCloud),
        ] {
            let sources = sources.iter().map(|&name| name.to_owned()).collect();
            let cloud_init = vec![CloudInit { place: "etc/cloud of partition 1".into(), sources }];
            let choice = choose(&ImageEvidence { cloud_init, ..ImageEvidence::default() }, &ALL).unwrap();
            assert_eq!((choice.form, choice.warnings.len()), (form, 0));
        }
        for sources in [&["Ec2"][..], &["OpenStack", "None"]] {
            let named = sources.iter().map(|&name| name.to_owned()).collect();
            let cloud_init = vec![CloudInit { place: "etc/cloud".into(), sources: named }];
            let signs =
                ImageEvidence { cloud_init, unread: vec!["partition 3 (lvm)".into()], ..ImageEvidence::default() };
            let error = choose(&signs, &ALL).unwrap_err().to_string();
            let read_none = format!("looks for such a one (its sources are others: etc/cloud, {})", sources.join(", "));
            for part in ["firesteel.dev/hand-off", "not looked into: partition 3 (lvm)", read_none.as_str()] {
                assert!(error.contains(part), "no {part:?} in: {error}");
            }
        }
    }

    #[test]
    fn signs_that_contradict_are_told_and_the_most_believed_is_taken() {
        let mut signs = with(&["ignition.platform.id=metal"]);
        signs.labels.push(("config-2".into(), "partition 5".into()));
        signs.cloud_init.push(CloudInit { place: "etc/cloud".into(), sources: vec!["NoCloud".into()] });
        let choice = choose(&signs, &[HandOffForm::BootPartition, HandOffForm::NoCloud]).unwrap();
        assert_eq!(choice.form, HandOffForm::BootPartition);
        assert_eq!(choice.warnings.len(), 2);
        assert!(choice.warnings[0].starts_with("the label config-2 of partition 5 speaks for a config drive"));
        assert!(choice.warnings[0].contains("for which the plan has no contents"), "{:?}", choice.warnings);
        let two = with(&["ignition.platform.id=openstack", "ignition.platform.id=metal"]);
        let choice = choose(&two, &ALL).unwrap();
        assert_eq!(
            (choice.form, choice.warnings.len()),
            (HandOffForm::BootPartition, 1),
            "files on a partition harm nothing"
        );
    }

    #[test]
    fn sources_of_cloud_init() {
        let list = |text: &str| cloud_sources(text).map(|names| names.join(" "));
        let debian =
            "# to update this file, run dpkg-reconfigure cloud-init\ndatasource_list: [ NoCloud, ConfigDrive, None ]\n";
        assert_eq!(list(debian).unwrap(), "NoCloud ConfigDrive None");
        assert_eq!(list("datasource_list:\n  - 'NoCloud'\n- None # last\nother: 1\n").unwrap(), "NoCloud None");
        assert_eq!(list("datasource_list: ['NoCloud',\n  \"Ec2\"]\nx: [y]\n").unwrap(), "NoCloud Ec2");
        assert_eq!(list("datasource_list: [A]\ndatasource_list: []\n").unwrap(), "", "the last counts");
        assert_eq!(list("#datasource_list: [A]\n"), None);
        let many = format!("datasource_list: [{}]", "A,".repeat(100_000));
        assert_eq!(cloud_sources(&many).unwrap().len(), SOURCES_MAX);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(datasource_list:|label (config-2|cidata)|ignition.platform.id=|- |\\[|\\]|[a\\x1b, \n\"#]){0,24}") {
            check(text.as_bytes());
        }
    }
}
