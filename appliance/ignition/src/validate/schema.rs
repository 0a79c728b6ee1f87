//! Which fields a config has: since which version, of which type, and where the schema requires them
//! (coreos/ignition, `config/v3_N/schema/ignition.json`).

use super::version::MINOR_MAX;

pub(super) enum Kind {
    Text,
    Flag,
    Whole,
    List(&'static Kind),
    Object(&'static [Field]),
}

pub(super) struct Field {
    pub(super) name: &'static str,
    /// Minor version that brought it.
    pub(super) since: u8,
    /// Minor versions whose schema requires it, the last one not included.
    required: (u8, u8),
    pub(super) kind: &'static Kind,
}

impl Field {
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

const fn field(name: &'static str, kind: &'static Kind) -> Field {
    Field { name, since: 0, required: (0, 0), kind }
}

const fn text(name: &'static str) -> Field {
    field(name, &Kind::Text)
}

const fn flag(name: &'static str) -> Field {
    field(name, &Kind::Flag)
}

const fn whole(name: &'static str) -> Field {
    field(name, &Kind::Whole)
}

const fn texts(name: &'static str) -> Field {
    field(name, &Kind::List(&Kind::Text))
}

pub(super) static CONFIG: Kind = Kind::Object(&[
    field("ignition", &IGNITION).required(),
    field("storage", &STORAGE),
    field("systemd", &SYSTEMD),
    field("passwd", &PASSWD),
    field("kernelArguments", &Kind::Object(&[texts("shouldExist"), texts("shouldNotExist")])).since(3),
]);

static HEADERS: Kind = Kind::List(&Kind::Object(&[text("name").required(), text("value")]));
static VERIFICATION: Kind = Kind::Object(&[text("hash")]);

/// What is fetched. The three are one since 3.1.
static CONTENTS: Kind = Kind::Object(&[
    text("source"),
    text("compression"),
    field("httpHeaders", &HEADERS).since(1),
    field("verification", &VERIFICATION),
]);
static REFERENCE: Kind = Kind::Object(&[
    text("source").required_before(1),
    text("compression").since(1),
    field("httpHeaders", &HEADERS).since(1),
    field("verification", &VERIFICATION),
]);

static IGNITION: Kind = Kind::Object(&[
    text("version").required_from(4),
    field("config", &Kind::Object(&[field("merge", &Kind::List(&REFERENCE)), field("replace", &REFERENCE)])),
    field("timeouts", &Kind::Object(&[whole("httpResponseHeaders"), whole("httpTotal")])),
    field(
        "security",
        &Kind::Object(&[field("tls", &Kind::Object(&[field("certificateAuthorities", &Kind::List(&REFERENCE))]))]),
    ),
    field("proxy", &Kind::Object(&[text("httpProxy"), text("httpsProxy"), texts("noProxy")])).since(1),
]);

static STORAGE: Kind = Kind::Object(&[
    field("disks", &Kind::List(&DISK)),
    field("raid", &Kind::List(&RAID)),
    field("luks", &Kind::List(&LUKS)).since(2),
    field("filesystems", &Kind::List(&FILESYSTEM)),
    field("files", &Kind::List(&FILE)),
    field("directories", &Kind::List(&DIRECTORY)),
    field("links", &Kind::List(&LINK)),
]);

static OWNER: Kind = Kind::Object(&[whole("id"), text("name")]);

static FILE: Kind = Kind::Object(&[
    text("path").required(),
    flag("overwrite"),
    field("user", &OWNER),
    field("group", &OWNER),
    field("contents", &CONTENTS),
    field("append", &Kind::List(&CONTENTS)),
    whole("mode"),
]);

static DIRECTORY: Kind = Kind::Object(&[
    text("path").required(),
    flag("overwrite"),
    field("user", &OWNER),
    field("group", &OWNER),
    whole("mode"),
]);

static LINK: Kind = Kind::Object(&[
    text("path").required(),
    flag("overwrite"),
    field("user", &OWNER),
    field("group", &OWNER),
    text("target").required_before(3),
    flag("hard"),
]);

static DISK: Kind = Kind::Object(&[
    text("device").required(),
    flag("wipeTable"),
    field(
        "partitions",
        &Kind::List(&Kind::Object(&[
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

static RAID: Kind = Kind::Object(&[
    text("name").required(),
    text("level").required_before(3),
    whole("spares"),
    texts("devices").required_before(3),
    texts("options"),
]);

static FILESYSTEM: Kind = Kind::Object(&[
    text("path"),
    text("device").required(),
    text("format"),
    texts("options"),
    texts("mountOptions").since(1),
    flag("wipeFilesystem"),
    text("label"),
    text("uuid"),
]);

static LUKS: Kind = Kind::Object(&[
    text("name").required(),
    text("label"),
    text("uuid"),
    text("device"),
    field("keyFile", &CONTENTS),
    flag("wipeVolume"),
    field("clevis", &CLEVIS),
    field("cex", &Kind::Object(&[flag("enabled")])).since(5),
    texts("options"),
    flag("discard").since(4),
    texts("openOptions").since(4),
]);

static CLEVIS: Kind = Kind::Object(&[
    field(
        "custom",
        &Kind::Object(&[text("pin").required_before(3), text("config").required_before(3), flag("needsNetwork")]),
    ),
    flag("tpm2"),
    field("tang", &Kind::List(&Kind::Object(&[text("url"), text("thumbprint"), text("advertisement").since(4)]))),
    whole("threshold"),
]);

static SYSTEMD: Kind = Kind::Object(&[field(
    "units",
    &Kind::List(&Kind::Object(&[
        text("name").required(),
        flag("enabled"),
        flag("mask"),
        text("contents"),
        field("dropins", &Kind::List(&Kind::Object(&[text("name").required(), text("contents")]))),
    ])),
)]);

static PASSWD: Kind = Kind::Object(&[
    field(
        "users",
        &Kind::List(&Kind::Object(&[
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
        &Kind::List(&Kind::Object(&[
            text("name").required(),
            whole("gid"),
            text("passwordHash"),
            flag("system"),
            flag("shouldExist").since(2),
        ])),
    ),
]);
