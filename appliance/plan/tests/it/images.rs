//! Images that upstream's rules allow and nothing here writes. A test prints a line of the table for each: the field, the
//! host, and what becomes of it.

#![allow(clippy::print_stdout, reason = "the table is what a test is run for")]

use firesteel_plan::{HostEffect, host::PlanKind};
use firesteel_resources::Image;
use firesteel_resources::bare_metal_host::{ErrorType, ImageFormat, ProvisioningState as S};

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
    world.count(|effect| matches!(effect, HostEffect::FetchImage { image } if image == wanted))
}

/// What changes a disk.
fn destroys(effect: &HostEffect) -> bool {
    matches!(
        effect,
        HostEffect::IssuePlan { plan: PlanKind::Write(_) | PlanKind::Clean { .. } | PlanKind::Erase(_), .. }
    )
}

/// Prints a row; what is wrong with it.
fn judge(field: &str, wanted: &Image, world: &World, (state, said): (S, &str)) -> Option<String> {
    let status = world.seen.host.status.clone().unwrap_or_default();
    let (kind, message) = (status.error_type, status.error_message);
    let row = format!("{field} {:?} {} | {:?}, {kind:?}: {message}", wanted.format, wanted.url, world.state());
    println!("{row}");
    let is_told = kind == Some(ErrorType::Provisioning) && message.starts_with(field) && message.contains(said);
    let is_left = (fetches(world, wanted), world.count(destroys)) == (0, 0);
    (world.state() != state || !is_told || !is_left).then_some(row)
}

/// Each row is judged, whatever became of those before.
fn all_are_right(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// It was refused at admission, or a live ISO was written to the disk.
#[test]
fn an_image_that_is_not_written_is_an_error_before_anything_is_destroyed() {
    let mut wrong = Vec::new();
    for (field, wanted) in unwritable() {
        let mut world = World::new();
        world.edit(|host| host.spec.image = Some(wanted.clone()));
        world.run();
        wrong.extend(judge(field, &wanted, &world, (S::Available, "nothing was written")));
        // Corrected, it is installed.
        world.edit(|host| host.spec.image = Some(image("one")));
        world.run();
        wrong.extend((world.state() != S::Provisioned).then(|| format!("corrected: {}", world.reason())));
    }
    all_are_right(&wrong);
}

#[test]
fn an_installed_host_keeps_its_os_when_such_an_image_is_wanted() {
    let mut wrong = Vec::new();
    for (field, wanted) in unwritable() {
        let mut world = World::new();
        world.run();
        assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
        world.effects.clear();
        world.edit(|host| host.spec.image = Some(wanted.clone()));
        world.run();
        wrong.extend(judge(field, &wanted, &world, (S::Provisioned, "keeps the OS")));
        world.edit(|host| host.spec.image = Some(image("one")));
        world.run();
        let status = world.seen.host.status.clone().unwrap_or_default();
        let is_over = world.state() == S::Provisioned && status.error_message.is_empty();
        wrong.extend((!is_over).then(|| format!("corrected: {:?}, {}", world.state(), status.error_message)));
    }
    all_are_right(&wrong);
}
