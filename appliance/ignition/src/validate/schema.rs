//! Which fields a config has: since which version, of which type, and where the schema requires them
//! (coreos/ignition, `config/v3_N/schema/ignition.json`).

use super::version::MINOR_MAX;

pub(super) enum FieldType {
    Text,
    Flag,
    Whole,
    List(&'static FieldType),
    Object(&'static [IgnitionField]),
}

pub(super) struct IgnitionField {
    pub(super) name: &'static str,
    /// Minor version that brought it.
    pub(super) since: u8,
    /// Minor versions whose schema requires it, the last one not included.
    required: (u8, u8),
    pub(super) kind: &'static FieldType,
}

impl IgnitionField {
    pub(super) fn is_known(&self, minor: u8) -> bool {
        self.since <= minor
    }

    pub(super) fn is_required(&self, minor: u8) -> bool {
        (self.required.0..self.required.1).contains(&minor)
    }

    const fn since(mut self, minor: u8) -> Self {
        self.since = minor;
        self
    }

    const fn required(mut self) -> Self {
        self.required = (0, MINOR_MAX + 1);
        self
    }

    const fn required_from(mut self, minor: u8) -> Self {
        self.required = (minor, MINOR_MAX + 1);
        self
    }

    const fn required_before(mut self, minor: u8) -> Self {
        self.required = (0, minor);
        self
    }
}

const fn field(name: &'static str, kind: &'static FieldType) -> IgnitionField {
    IgnitionField { name, since: 0, required: (0, 0), kind }
}

const fn text(name: &'static str) -> IgnitionField {
    field(name, &FieldType::Text)
}

const fn flag(name: &'static str) -> IgnitionField {
    field(name, &FieldType::Flag)
}

const fn whole(name: &'static str) -> IgnitionField {
    field(name, &FieldType::Whole)
}

const fn texts(name: &'static str) -> IgnitionField {
    field(name, &FieldType::List(&FieldType::Text))
}

pub(super) static CONFIG: FieldType = FieldType::Object(&[
    field("ignition", &IGNITION).required(),
    field("storage", &STORAGE),
    field("systemd", &SYSTEMD),
    field("passwd", &PASSWD),
    field("kernelArguments", &FieldType::Object(&[texts("shouldExist"), texts("shouldNotExist")])).since(3),
]);

static HEADERS: FieldType = FieldType::List(&FieldType::Object(&[text("name").required(), text("value")]));
static VERIFICATION: FieldType = FieldType::Object(&[text("hash")]);

/// What is fetched. The three are one since 3.1.
static CONTENTS: FieldType = FieldType::Object(&[
    text("source"),
    text("compression"),
    field("httpHeaders", &HEADERS).since(1),
    field("verification", &VERIFICATION),
]);
static REFERENCE: FieldType = FieldType::Object(&[
    text("source").required_before(1),
    text("compression").since(1),
    field("httpHeaders", &HEADERS).since(1),
    field("verification", &VERIFICATION),
]);

static IGNITION: FieldType = FieldType::Object(&[
    text("version").required_from(4),
    field("config", &FieldType::Object(&[field("merge", &FieldType::List(&REFERENCE)), field("replace", &REFERENCE)])),
    field("timeouts", &FieldType::Object(&[whole("httpResponseHeaders"), whole("httpTotal")])),
    field(
        "security",
        &FieldType::Object(&[field(
            "tls",
            &FieldType::Object(&[field("certificateAuthorities", &FieldType::List(&REFERENCE))]),
        )]),
    ),
    field("proxy", &FieldType::Object(&[text("httpProxy"), text("httpsProxy"), texts("noProxy")])).since(1),
]);

static STORAGE: FieldType = FieldType::Object(&[
    field("disks", &FieldType::List(&DISK)),
    field("raid", &FieldType::List(&RAID)),
    field("luks", &FieldType::List(&LUKS)).since(2),
    field("filesystems", &FieldType::List(&FILESYSTEM)),
    field("files", &FieldType::List(&FILE)),
    field("directories", &FieldType::List(&DIRECTORY)),
    field("links", &FieldType::List(&LINK)),
]);

static OWNER: FieldType = FieldType::Object(&[whole("id"), text("name")]);

static FILE: FieldType = FieldType::Object(&[
    text("path").required(),
    flag("overwrite"),
    field("user", &OWNER),
    field("group", &OWNER),
    field("contents", &CONTENTS),
    field("append", &FieldType::List(&CONTENTS)),
    whole("mode"),
]);

static DIRECTORY: FieldType = FieldType::Object(&[
    text("path").required(),
    flag("overwrite"),
    field("user", &OWNER),
    field("group", &OWNER),
    whole("mode"),
]);

static LINK: FieldType = FieldType::Object(&[
    text("path").required(),
    flag("overwrite"),
    field("user", &OWNER),
    field("group", &OWNER),
    text("target").required_before(3),
    flag("hard"),
]);

static DISK: FieldType = FieldType::Object(&[
    text("device").required(),
    flag("wipeTable"),
    field(
        "partitions",
        &FieldType::List(&FieldType::Object(&[
            text("label"),
            whole("number"),
            whole("sizeMiB"),
            whole("startMiB"),
            text("typeGuid"),
            text("guid"),
            flag("wipePartitionEntry"),
            flag("shouldExist"),
            flag("resize").since(2),
        ])),
    ),
]);

static RAID: FieldType = FieldType::Object(&[
    text("name").required(),
    text("level").required_before(3),
    whole("spares"),
    texts("devices").required_before(3),
    texts("options"),
]);

static FILESYSTEM: FieldType = FieldType::Object(&[
    text("path"),
    text("device").required(),
    text("format"),
    texts("options"),
    texts("mountOptions").since(1),
    flag("wipeFilesystem"),
    text("label"),
    text("uuid"),
]);

static LUKS: FieldType = FieldType::Object(&[
    text("name").required(),
    text("label"),
    text("uuid"),
    text("device"),
    field("keyFile", &CONTENTS),
    flag("wipeVolume"),
    field("clevis", &CLEVIS),
    field("cex", &FieldType::Object(&[flag("enabled")])).since(5),
    texts("options"),
    flag("discard").since(4),
    texts("openOptions").since(4),
]);

static CLEVIS: FieldType = FieldType::Object(&[
    field(
        "custom",
        &FieldType::Object(&[text("pin").required_before(3), text("config").required_before(3), flag("needsNetwork")]),
    ),
    flag("tpm2"),
    field(
        "tang",
        &FieldType::List(&FieldType::Object(&[text("url"), text("thumbprint"), text("advertisement").since(4)])),
    ),
    whole("threshold"),
]);

static SYSTEMD: FieldType = FieldType::Object(&[field(
    "units",
    &FieldType::List(&FieldType::Object(&[
        text("name").required(),
        flag("enabled"),
        flag("mask"),
        text("contents"),
        field("dropins", &FieldType::List(&FieldType::Object(&[text("name").required(), text("contents")]))),
    ])),
)]);

static PASSWD: FieldType = FieldType::Object(&[
    field(
        "users",
        &FieldType::List(&FieldType::Object(&[
            text("name").required(),
            text("passwordHash"),
            texts("sshAuthorizedKeys"),
            whole("uid"),
            text("gecos"),
            text("homeDir"),
            flag("noCreateHome"),
            text("primaryGroup"),
            texts("groups"),
            flag("noUserGroup"),
            flag("system"),
            flag("noLogInit"),
            text("shell"),
            flag("shouldExist").since(2),
        ])),
    ),
    field(
        "groups",
        &FieldType::List(&FieldType::Object(&[
            text("name").required(),
            whole("gid"),
            text("passwordHash"),
            flag("system"),
            flag("shouldExist").since(2),
        ])),
    ),
]);
