//! The disk that the next installation of the host writes, or the last one wrote, and why it was chosen.

use firesteel_plan::{HostMemory, host::DiskPlan, journal::stored_memory};
use firesteel_resources::{HostJournal, RootDeviceHints};
use serde_json::Value;

use super::TextPage;

pub(super) fn render(page: &mut TextPage, journal: &HostJournal) {
    match stored_memory(&journal.status) {
        Ok(Some(HostMemory { disk: Some(plan), .. })) => show(page, &plan),
        Ok(Some(HostMemory { disk: None, .. }) | None) => {}
        Err(error) => {
            page.title("Disk plan");
            let text = format!("could not read it: {error}; use the `firesteel` of the appliance's own version");
            page.item("  ", &text, 2);
        }
    }
}

fn show(page: &mut TextPage, plan: &DiskPlan) {
    page.title("Disk plan");
    let choice = &plan.choice;
    page.item("  disk:       ", &format!("{} ({})", choice.device, choice.disk), 14);
    page.item("  named by:   ", choice.disk.named_by(), 14);
    if !choice.by_path.is_empty() {
        page.item("  place:      ", &choice.by_path, 14);
    }
    page.item("  why:        ", &choice.why, 14);
    page.item("  hints:      ", &hints(&plan.hints), 14);
    let chosen = format!("{:.0}, from the inspection of attempt {}", plan.chosen_at, plan.inspected_in);
    page.item("  chosen at:  ", &chosen, 14);
}

/// Lists the hints as the host's spec states them.
fn hints(hints: &RootDeviceHints) -> String {
    let fields = serde_json::to_value(hints).ok();
    let fields = fields.as_ref().and_then(Value::as_object).into_iter().flatten();
    let texts: Vec<String> = fields.map(|(name, value)| format!("{name}: {value}")).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}
