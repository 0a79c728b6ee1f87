//! The table of `firesteel get hostgroups`.

use anyhow::Context as _;
use firesteel_resources::condition::find_condition;
use firesteel_resources::host_group::{CANARY_HALTED, DEGRADED, ImageReference};
use firesteel_resources::{ConditionStatus, HostGroup};
use serde_json::Value;

use crate::table::{TableRow, TextTable, clean};

/// Renders the groups; an empty text if there are none.
pub(super) fn render(items: Vec<Value>, width: usize, is_wide: bool, everywhere: bool) -> anyhow::Result<String> {
    let groups: Vec<HostGroup> = serde_json::from_value(Value::Array(items)).context("could not read the groups")?;
    if groups.is_empty() {
        return Ok(String::new());
    }
    let header: Vec<&str> = [
        everywhere.then_some("NAMESPACE"),
        Some("NAME"),
        is_wide.then_some("POOL"),
        Some("STREAM"),
        Some("CURRENT"),
        Some("GOLDEN"),
        Some("CANARY"),
        Some("HOSTS"),
        Some("RUNNING"),
        is_wide.then_some("WAITING"),
        Some("WRONG"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let rows = groups.iter().map(|group| row(group, is_wide, everywhere)).collect();
    Ok(TextTable { header, rows, expendable: &["STREAM", "CANARY"] }.render(width))
}

fn row(group: &HostGroup, is_wide: bool, everywhere: bool) -> TableRow {
    let (image, status) = (&group.spec.image, &group.status);
    let release = |image: Option<&ImageReference>| match image {
        None => "-".to_owned(),
        Some(image) if image.release.is_empty() => "own".to_owned(),
        Some(image) => clean(&image.release),
    };
    let wrong = [DEGRADED, CANARY_HALTED].into_iter().find_map(|type_| {
        find_condition(&status.conditions, type_).filter(|found| found.status == ConditionStatus::True)
    });
    let or_none = |text: &str| clean(if text.is_empty() { "-" } else { text });
    let cells = [
        everywhere.then(|| clean(&group.metadata.namespace)),
        Some(clean(&group.metadata.name)),
        is_wide.then(|| or_none(&group.spec.pool)),
        Some(or_none(&image.stream)),
        Some(release(status.current.as_ref())),
        Some(release(status.golden.as_ref())),
        Some(status.canary.as_ref().map_or_else(|| "-".to_owned(), |canary| format!("{:?}", canary.state))),
        Some(status.hosts.total.to_string()),
        Some(status.hosts.running.to_string()),
        is_wide.then(|| status.hosts.waiting.to_string()),
        Some(wrong.map_or_else(|| "-".to_owned(), |found| clean(&format!("{}: {}", found.reason, found.message)))),
    ];
    TableRow::whole(cells.into_iter().flatten().collect())
}
