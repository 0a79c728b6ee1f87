//! Hardware that a host's owner describes.

use firesteel_plan::HostEffect;
use firesteel_resources::bare_metal_host::{InspectionMode, annotations};

use crate::world::World;

const HARDWARE: &str = r#"{"ramMebibytes":4096,"cpu":{"arch":"x86_64","count":4}}"#;

/// It is taken where inspection is disabled, and where nothing is known so far; else the inspection counts.
#[test]
fn a_description_is_taken_where_nothing_is_known_or_nobody_inspects() {
    let disabled = |host: &mut firesteel_resources::BareMetalHost| {
        host.spec.inspection_mode = Some(InspectionMode::Disabled);
    };
    for (is_inspected, is_disabled, is_taken) in
        [(false, false, true), (false, true, true), (true, true, true), (true, false, false)]
    {
        let mut world = World::new();
        if is_inspected {
            world.run();
            assert!(world.seen.hardware.is_some(), "{}", world.reason());
        }
        if is_disabled {
            world.edit(disabled);
        }
        world.annotate(annotations::HARDWARE_DETAILS, HARDWARE);
        world.step();
        let case = format!("inspected {is_inspected}, disabled {is_disabled}");
        let taken = world.count(|effect| matches!(effect, HostEffect::SupplyHardware { .. }));
        assert_eq!(taken, usize::from(is_taken), "{case}");
        let shown = world.seen.host.status.as_ref().and_then(|status| status.hardware.as_ref());
        assert_eq!(shown.is_some_and(|shown| shown.ram_mebibytes == 4096), is_taken, "{case}");
        let (key, value) = (annotations::HARDWARE_DETAILS.to_owned(), HARDWARE.to_owned());
        let removal = HostEffect::RemoveAnnotation { key, value };
        assert_eq!(world.count(|effect| *effect == removal), 1, "{case}");
    }
}
