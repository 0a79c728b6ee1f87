//! The ConfigMap `coreos-bootimages` (S1-2.2): the golden list of a cluster, of no use before it is stamped.

use std::collections::BTreeMap;

use super::json::{DuplicateJsonKey, Json};
use super::parse::{StreamError, StreamMetadata};
use super::parse_json;
use super::text::{is_name, shown};

/// Metadata of the one stream that old versions know.
pub const STREAM_KEY: &str = "stream";
/// Metadata by name of the OS stream (`rhel-9`, …), of newer versions.
pub const STREAMS_KEY: &str = "streams";
/// The version of the release that the list came with.
pub const RELEASE_KEY: &str = "releaseVersion";
/// The stamp: the release whose nodes were seen running.
pub const STAMP_KEY: &str = "MCOReleaseImageVersion";
/// The stamp: the operator that wrote it.
pub const OPERATOR_HASH_KEY: &str = "MCOVersionHash";

/// Streams of one list; published ones have two.
const STREAMS_MAX: usize = 64;

/// A golden list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootImages {
    /// The release; empty where the list does not say.
    pub release_version: String,
    pub stamp: StampState,
    /// The streams by name of the OS stream; the one of [`STREAM_KEY`] has its own name. One that cannot be read is an
    /// error of its own.
    pub streams: BTreeMap<String, Result<StreamMetadata, StreamError>>,
    /// Names of OS streams that cannot be names, and other things that are wrong with the list itself.
    pub faults: Vec<String>,
}

/// Whether the images are known to match what runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StampState {
    Missing,
    /// Both stamps are there and name the list's own release.
    Stamped {
        operator_hash: String,
    },
    /// The stamps name another release than the list is of: it is not for this one yet.
    OtherRelease {
        stamped: String,
    },
}

impl BootImages {
    /// Reads the `data` of a ConfigMap.
    pub fn of_data(data: &BTreeMap<String, String>) -> Result<Self, StreamError> {
        Self::of_values(&|key| Ok(data.get(key).map(String::as_str)))
    }

    /// Reads the whole object.
    pub(super) fn of_object(json: &Json) -> Result<Self, StreamError> {
        let shape = StreamError::Shape { field: "data", wanted: "an object of texts" };
        let root = json.object().ok_or(shape.clone())?;
        let data = root.get("data").map_err(|DuplicateJsonKey| StreamError::Twice { field: "data" })?;
        let data = data.and_then(Json::object).ok_or(shape)?;
        Self::of_values(&|key| {
            let value = data.get(key).map_err(|DuplicateJsonKey| StreamError::Twice { field: key })?;
            value.map(|value| value.text().ok_or(StreamError::Shape { field: key, wanted: "a text" })).transpose()
        })
    }

    fn of_values<'a>(get: &dyn Fn(&'static str) -> Result<Option<&'a str>, StreamError>) -> Result<Self, StreamError> {
        let name = |key| Ok::<_, StreamError>(get(key)?.map(str::trim).filter(|text| !text.is_empty()).map(shown));
        let release_version = name(RELEASE_KEY)?.unwrap_or_default();
        let stamp = match (name(OPERATOR_HASH_KEY)?, name(STAMP_KEY)?) {
            (Some(operator_hash), Some(stamped)) if stamped == release_version => StampState::Stamped { operator_hash },
            (Some(_), Some(stamped)) => StampState::OtherRelease { stamped },
            (_, None) | (None, Some(_)) => StampState::Missing,
        };
        let (mut streams, mut faults) = (BTreeMap::new(), Vec::new());
        if let Some(text) = get(STREAMS_KEY)? {
            let json = parse_json(text.as_bytes())?;
            let map = json.object().ok_or(StreamError::Shape { field: STREAMS_KEY, wanted: "an object" })?;
            for (name, value) in map.entries() {
                match value {
                    _ if streams.len() == STREAMS_MAX => {
                        faults.push(format!("there are more than {STREAMS_MAX} streams"));
                        break;
                    }
                    _ if !is_name(name) => faults.push(format!("{} is no name of an OS stream", shown(name))),
                    Ok(json) => {
                        streams.insert(name.to_owned(), StreamMetadata::of_json(json));
                    }
                    Err(DuplicateJsonKey) => faults.push(format!("the OS stream {name} stands twice")),
                }
            }
        }
        if let Some(text) = get(STREAM_KEY)? {
            let legacy = parse_json(text.as_bytes()).and_then(|json| StreamMetadata::of_json(&json));
            let name = legacy.as_ref().map_or(STREAM_KEY, |stream| stream.name.as_str()).to_owned();
            streams.entry(name).or_insert(legacy);
        }
        if streams.is_empty() && faults.is_empty() {
            return Err(StreamError::Shape { field: "data", wanted: "an object with stream or streams" });
        }
        Ok(Self { release_version, stamp, streams, faults })
    }
}
