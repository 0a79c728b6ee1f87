//! Why a host's OS cannot be handed what its Secrets hold. The texts stand in the host's status: each names the Secret
//! or the field, and says what to do.

use firesteel_ignition::stub::form::UserDataError as UserDataFormError;
use firesteel_resources::bare_metal_host::annotations::{HAND_OFF, HAND_OFF_WORDS};
use firesteel_resources::boot_image_stream::DeclaredForm;

use crate::hand_off_inputs::{CONFIGS_MAX, META_DATA_BYTES_MAX};
use crate::{form_origin::FormOrigin, network_data::NetworkDataError};

/// Why nothing can be handed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandOffProblem {
    #[error("Secret {name} that {field} names does not exist: create it")]
    NoSecret { name: String, field: &'static str },
    #[error("Secret {name} that {field} names has no key {key}: put it there")]
    NoKey { name: String, field: &'static str, key: &'static str },
    #[error("Secret {name}, key userData: {problem}")]
    UserData { name: String, problem: UserDataProblem },
    #[error("Secret {name}, key {key}: {problem}")]
    MetaData { name: String, key: &'static str, problem: MetaDataProblem },
    #[error("Secret {name}, key {key}: {problem}")]
    NetworkData { name: String, key: &'static str, problem: NetworkDataError },
    #[error("the user data fetches {count} configs of this appliance: at most {CONFIGS_MAX} are served to one host")]
    TooManyConfigs { count: usize },
    #[error(
        "{said_by}: kernel-arguments needs a stub that leads to one config of this appliance and says nothing else, and \
         configs without TLS (`firesteel serve --config-plain-port`): a kernel argument brings no CA"
    )]
    NoPlainConfig { said_by: FormOrigin },
    #[error("metadata.annotations[{HAND_OFF}] must be one of {}", HAND_OFF_WORDS.join(", "))]
    UnknownForm,
    #[error("{said_by} must be one of {}", HAND_OFF_WORDS.join(", "))]
    UnknownFormOfStream { said_by: FormOrigin },
    #[error(
        "its image is of BootImageStream {}, whose spec.handOff says {}, and of {}, whose says {}: let them say the same, or \
         say it on the host by the annotation {HAND_OFF}",
        .one.stream, .one.word, .other.stream, .other.word
    )]
    StreamsDiffer { one: DeclaredForm, other: DeclaredForm },
    /// A form cannot hold it, in words that are bounded.
    #[error("{0}")]
    Form(String),
    #[error("with the kernel arguments of {}: {problem}", configs.join(", "))]
    KernelArguments { configs: Vec<String>, problem: Box<HandOffProblem> },
}

/// What is wrong with user data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserDataProblem {
    #[error(transparent)]
    Form(#[from] UserDataFormError),
    #[error("the Ignition config is not valid: {}", .errors.join("; "))]
    NotValid { errors: Vec<String> },
}

/// What is wrong with metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaDataProblem {
    #[error("it has more than {META_DATA_BYTES_MAX} bytes")]
    TooLong,
    /// Neither YAML nor JSON, in the words of its reader.
    #[error("{0}")]
    NotYaml(String),
    #[error("it must be an object of names and values")]
    NotAnObject,
}
