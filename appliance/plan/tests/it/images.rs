//! Images that upstream's rules allow and nothing here writes.

use firesteel_plan::{Effect, host::PlanKind};
use firesteel_resources::{
    Image,
    bare_metal_host::{ErrorType, ImageFormat, ProvisioningState as S},
};

use crate::world::{World, image};

fn unwritable() -> [(&'static str, Image); 4] {
    let of_format = |format| Image { format: Some(format), ..image("another") };
    let oci = Image { url: "oci://registry/os/worker:1".into(), ..Image::default() };
    [
        ("spec.image.format", of_format(ImageFormat::LiveIso)),
        ("spec.image.format", of_format(ImageFormat::Vmdk)),
        ("spec.image.format", of_format(ImageFormat::Vdi)),
        ("spec.image.url", oci),
    ]
}

fn fetches(world: &World, wanted: &Image) -> usize {
    world.count(|effect| matches!(effect, Effect::FetchImage { image } if image == wanted))
}

/// What changes a disk.
fn destroys(effect: &Effect) -> bool {
    matches!(effect, Effect::IssuePlan { plan: PlanKind::Write(_) | PlanKind::Clean { .. } | PlanKind::Erase(_), .. })
}

/// It was refused at admission, or a live ISO was written to the disk.
#[test]
fn an_image_that_is_not_written_is_an_error_before_anything_is_destroyed() {
    for (field, wanted) in unwritable() {
        let mut world = World::new();
        world.edit(|host| host.spec.image = Some(wanted.clone()));
        world.run();
        assert_eq!(world.state(), S::Available, "{wanted:?}: {}", world.reason());
        let status = world.seen.host.status.clone().unwrap();
        assert_eq!(status.error_type, Some(ErrorType::Provisioning), "{wanted:?}");
        assert!(status.error_message.starts_with(field), "{}", status.error_message);
        assert_eq!((fetches(&world, &wanted), world.count(destroys)), (0, 0), "{:?}", world.effects);
        // Corrected, it is installed.
        world.edit(|host| host.spec.image = Some(image("one")));
        world.run();
        assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    }
}

#[test]
fn an_installed_host_keeps_its_os_when_such_an_image_is_wanted() {
    for (field, wanted) in unwritable() {
        let mut world = World::new();
        world.run();
        assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
        world.effects.clear();
        world.edit(|host| host.spec.image = Some(wanted.clone()));
        world.run();
        assert_eq!(world.state(), S::Provisioned, "{wanted:?}: {}", world.reason());
        let status = world.seen.host.status.clone().unwrap();
        assert!(status.error_message.starts_with(field), "{}", status.error_message);
        assert!(status.error_message.contains("keeps the OS"), "{}", status.error_message);
        assert_eq!((fetches(&world, &wanted), world.count(destroys)), (0, 0), "{:?}", world.effects);
        world.edit(|host| host.spec.image = Some(image("one")));
        world.run();
        let status = world.seen.host.status.clone().unwrap();
        assert_eq!((world.state(), status.error_message.as_str()), (S::Provisioned, ""));
    }
}
