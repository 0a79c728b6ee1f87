//! One provisioning, with the appliance killed at one point after the other: before and after every
//! write to the store, around every request to the BMC that changes something, after the image.

use std::time::Duration;

use firesteel_resources::bare_metal_host::ProvisioningState;

use crate::counts::Counts;
use crate::executor::lock;
use crate::owner::{Birth, Wish};
use crate::trouble::hosts_text;
use crate::world::{Setup, World};

/// From an empty store to a running system; the number of points passed, and how often the image was
/// written.
fn provision(seed: u64, die_at: Option<u64>) -> (u64, u64, Duration) {
    let setup = Setup { seed, machines: 1, wild: false, bug: None, so_far: Counts::default() };
    let mut world = World::new(setup);
    lock(&world.laws).die_at = die_at;
    let failed = |world: &World, why: &str| -> ! {
        let laws = lock(&world.laws);
        let (doing, host) = (world.doing(0), world.host_object("host-0"));
        panic!(
            "seed {seed}, killed at point {die_at:?}: {why}; {doing}\n{}{}{:#?}\n{:?}",
            world.story(),
            hosts_text(&laws),
            laws.hosts.get("host-0").map(|host| (&host.instance, &host.agent)),
            host.and_then(|host| host.status).map(|status| status.conditions),
        )
    };
    let mut asked = Duration::ZERO;
    let end = Duration::from_secs(3 * 3600);
    while world.now() < end {
        // An owner who asks until the API has taken it, as every good client does.
        let host = world.host_object("host-0");
        if world.now() >= asked {
            asked = world.now() + Duration::from_secs(20);
            match host {
                None => world.create(0, Birth::WithBmc),
                Some(host) if host.spec.image.is_none() => world.wish("host-0", Wish::Image),
                Some(_) => {}
            }
            world.settle_tasks();
        }
        if let Err(violation) = world.run_for(Duration::from_secs(5)) {
            failed(&world, &violation.to_string());
        }
        let now = world.now().max(asked.min(world.now() + Duration::from_secs(5)));
        world.executor.advance(now);
        let laws = lock(&world.laws);
        let runs = laws.hosts.get("host-0").is_some_and(|host| {
            host.state() == ProvisioningState::Provisioned
                && host.instance.as_ref().is_some_and(|instance| instance.running_at.is_some())
        });
        if runs {
            let written = laws.counts.others.get("write").copied().unwrap_or(0);
            return (laws.points, written, world.now());
        }
    }
    failed(&world, "it does not run after three hours")
}

#[test]
fn at_every_point_it_goes_on_and_writes_once() {
    let seed = 5;
    let (points, written, took) = provision(seed, None);
    assert_eq!(written, 1);
    let mut longest = Duration::ZERO;
    for point in 1..=points {
        let (_, written, took) = provision(seed, Some(point));
        assert_eq!(written, 1, "seed {seed}, killed at point {point}: the image was written {written} times");
        longest = longest.max(took);
    }
    println!("{points} kill points; undisturbed {took:?}, longest {longest:?}");
    assert!(points > 60, "a provisioning has more points than {points}");
}
