//! The rules by name, and how a hit of each is mended.

/// A rule that sources keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    CrateArrow,
    DocComment,
    FileLength,
    FolderArrow,
    FunctionLength,
    LogEvent,
    StringError,
    TupleParameter,
    TypeName,
}

impl Rule {
    /// Every rule, in the order of their names.
    pub const ALL: [Self; 9] = [
        Self::CrateArrow,
        Self::DocComment,
        Self::FileLength,
        Self::FolderArrow,
        Self::FunctionLength,
        Self::LogEvent,
        Self::StringError,
        Self::TupleParameter,
        Self::TypeName,
    ];

    /// The rule's name in `allowed.toml` and `ratchet.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::CrateArrow => "crate-arrow",
            Self::DocComment => "doc-comment",
            Self::FileLength => "file-length",
            Self::FolderArrow => "folder-arrow",
            Self::FunctionLength => "function-length",
            Self::LogEvent => "log-event",
            Self::StringError => "string-error",
            Self::TupleParameter => "tuple-parameter",
            Self::TypeName => "type-name",
        }
    }

    /// Finds a rule by its name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// How many places `allowed.toml` may hold.
    pub fn allowed_max(self) -> usize {
        match self {
            Self::FileLength | Self::FunctionLength => 3,
            Self::StringError | Self::TypeName => 10,
            Self::CrateArrow | Self::DocComment | Self::FolderArrow | Self::LogEvent | Self::TupleParameter => 0,
        }
    }

    /// Says how to mend a hit.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::CrateArrow => {
                "Arrows between crates point down, as docs/dev/architecture.md draws them. Move what both crates use \
                 into a crate below them, or pass it in by value. If the house is to change, change the row in \
                 tests/tidy/arrows.toml and the drawing with it."
            }
            Self::DocComment => {
                "A doc comment is a whole sentence that reads alone. Begin with a verb in the third person \
                 (\"Returns …\") or name the item (\"The lease of a known host.\"), and end the paragraph with a full \
                 stop. Name the subject: \"Of its newest inspection.\" becomes \"When the host was last inspected.\"."
            }
            Self::FileLength => {
                "Split the file by state, step or what it serves, and give each part a file that is named after its \
                 role."
            }
            Self::FolderArrow => {
                "Layers use only those below them. Move the shared type into the lower layer, or let the upper layer \
                 pass a value in. The layers stand in tests/tidy/arrows.toml."
            }
            Self::FunctionLength => {
                "Keep the control flow in this function and move each step into a function of its own, named by a verb."
            }
            Self::LogEvent => {
                "A log event is a sentence. Say what failed and what comes next: \"compacting the store\" becomes \
                 \"could not compact the store; trying again in 60 s\". Any first word in -ing counts, \"nothing\" too."
            }
            Self::StringError => {
                "Make the error an enum with `thiserror`: one variant for each action that failed, with its cause as \
                 `#[source]`. Only the command line may end in text."
            }
            Self::TupleParameter => {
                "Give the parts names: take them as parameters of their own, or as a struct that is named after its \
                 role."
            }
            Self::TypeName => {
                "A type's name is unique in its crate, so that it is found by a search. Name its role, not the old \
                 noun with its module's name before it. `Error` may repeat."
            }
        }
    }
}

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    pub rule: Rule,
    /// The file, below the repository's root.
    pub path: String,
    pub line: usize,
    /// What is wrong there by name: a function, a type, an arrow. It is what `allowed.toml` names.
    pub item: String,
    /// What a person reads behind the place.
    pub text: String,
}
