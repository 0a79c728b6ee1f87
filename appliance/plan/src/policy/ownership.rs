//! Rules 2 and 3: a set of another owner, or of another operating system, is left alone. The first of several reasons
//! is given: who owns it, then what its label says.

use firesteel_resources::host_group::{MANAGED_LABEL, OS_STREAM_LABELS};

use super::{Catalogue, PolicySet, SetDecision, SetIntent, SkipReason, SkippedSet, catalogue::CatalogueMatch};

/// Upstream's label for the operating system of a set.
const OS_LABEL: &str = "machine.openshift.io/os-id";
const WINDOWS: &str = "Windows";

fn skip(reason: SkipReason, message: String) -> SkippedSet {
    SkippedSet { reason, message }
}

/// Whose set it is; such a set is forgotten, too.
pub(super) fn of_another(set: &PolicySet) -> Option<SkippedSet> {
    if !set.owners.is_empty() {
        return Some(skip(
            SkipReason::Owned,
            format!("it belongs to {}, which is to change it", set.owners.join(", ")),
        ));
    }
    if set.is_migrated {
        let message = "authority over it was moved to Cluster API: its set there is the one to change";
        return Some(skip(SkipReason::Migrated, message.to_owned()));
    }
    if set.labels.get(MANAGED_LABEL).is_some_and(|value| value.eq_ignore_ascii_case("false")) {
        return Some(skip(SkipReason::OptedOut, format!("it has the label {MANAGED_LABEL}=false")));
    }
    let system = set.labels.get(OS_LABEL).filter(|system| system.eq_ignore_ascii_case(WINDOWS))?;
    Some(skip(SkipReason::OtherSystem, format!("its label {OS_LABEL} says that its machines run {system}")))
}

/// The stream of the set is not clear.
fn ambiguous_stream(streams: &[&str]) -> SkippedSet {
    let [label, _] = OS_STREAM_LABELS;
    let message =
        format!("its image is of the streams {}: name the one to follow by the label {label}", streams.join(" and "));
    skip(SkipReason::StreamUnclear, message)
}

/// The stream that it follows by its spec or its image, which a label must not contradict. `None`: its image is of no
/// stream that is known.
pub(super) fn stream<'a>(set: &'a PolicySet, catalogue: &'a Catalogue) -> Result<Option<&'a str>, SetDecision> {
    let label = set.stream_label();
    let followed = match &set.wants {
        SetIntent::Stream(stream) => Some(stream.as_str()),
        SetIntent::SameStream => match catalogue.known(&set.current, &set.preferred_streams()) {
            CatalogueMatch::Of(stream, _) => Some(stream),
            CatalogueMatch::No => None,
            CatalogueMatch::OfSeveral(streams) => return Err(SetDecision::Skip(ambiguous_stream(&streams))),
        },
        SetIntent::Pinned | SetIntent::Restored(_) | SetIntent::Own => None,
    };
    let Some((label, named)) = label else { return Ok(followed) };
    let is_another = match followed {
        Some(followed) => named != followed,
        None => !catalogue.has_stream(named),
    };
    if is_another {
        let own = followed.map_or_else(|| "no stream of that name".to_owned(), |stream| format!("the stream {stream}"));
        let message = format!("its label {label} names {named}, and there is {own} for it");
        return Err(SetDecision::Skip(skip(SkipReason::OtherStream, message)));
    }
    Ok(followed)
}
