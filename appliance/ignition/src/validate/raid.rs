//! Software RAIDs (`types/raid.go`, `device.go`).

use std::collections::HashSet;

use super::{ConfigLocation, Rules, path};

pub(super) fn check(rules: &mut Rules<'_>, storage: &ConfigLocation<'_>) {
    let arrays = storage.list("raid");
    for array in &arrays {
        level(rules, array);
        let devices = array.texts("devices");
        if devices.is_empty() {
            rules.error(array, "devices", "is needed");
        }
        for (index, device) in devices.into_iter().enumerate() {
            rules.error_if_some(array, &format!("devices[{index}]"), path::fault(device));
        }
        rules.unique_texts(array, "devices", &mut HashSet::new());
    }
    rules.unique(&arrays, "name", &mut HashSet::new());
}

fn level(rules: &mut Rules<'_>, array: &ConfigLocation<'_>) {
    match array.text("level").unwrap_or_default() {
        "" => rules.error(array, "level", "is needed"),
        "linear" | "raid0" | "0" | "stripe" => {
            if array.whole("spares").unwrap_or_default() != 0 {
                rules.error(array, "spares", "must be 0: linear and raid0 have none");
            }
        }
        "raid1" | "1" | "mirror" | "raid4" | "4" | "raid5" | "5" | "raid6" | "6" | "raid10" | "10" => {}
        _ => rules.error(array, "level", "is none of linear, raid0, raid1, raid4, raid5, raid6, raid10"),
    }
}
