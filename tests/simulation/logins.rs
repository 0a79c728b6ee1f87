//! Wrong passwords of BMCs, on the world's clock, against a BMC that locks an account after five refused logins.

use std::time::Duration;

use firesteel_kube::ObjectPart;
use firesteel_resources::bare_metal_host::ProvisioningState as S;
use firesteel_resources::secret::SecretBytes;
use firesteel_resources::{BareMetalHost, Secret};

use crate::counts::Counts;
use crate::owner::{Birth, NAMESPACE};
use crate::world::{Setup, World};

/// As common BMCs have it: so many within the window lock the account for as long.
const TRIES: usize = 5;
const WINDOW: Duration = Duration::from_secs(600);

/// The account of a BMC that counts refused logins.
#[derive(Debug, Default)]
pub(crate) struct Account {
    refused: Vec<Duration>,
    locked_at: Option<Duration>,
    /// It was locked at least once.
    was_locked: bool,
}

impl Account {
    pub(crate) fn is_locked(&self, now: Duration) -> bool {
        self.locked_at.is_some_and(|at| now < at + WINDOW)
    }

    pub(crate) fn refuse(&mut self, now: Duration) {
        self.refused.retain(|at| now < *at + WINDOW);
        self.refused.push(now);
        if self.refused.len() >= TRIES {
            (self.locked_at, self.was_locked) = (Some(now), true);
        }
    }
}

impl World {
    fn set_secret(&mut self, change: impl Fn(&mut Secret) + Send + Sync + 'static) {
        let Some(appliance) = &self.appliance else { return };
        let secrets = appliance.secrets.clone();
        self.executor.spawn(
            appliance.life,
            Box::pin(async move { drop(secrets.modify(NAMESPACE, "bmc-0", ObjectPart::Main, change).await) }),
        );
        self.settle_tasks();
    }

    fn set_password(&mut self, password: &str) {
        let password = password.as_bytes().to_vec();
        self.set_secret(move |secret| {
            secret.data.insert("username".into(), SecretBytes(b"admin".to_vec()));
            secret.data.insert("password".into(), SecretBytes(password.clone()));
        });
    }

    fn drop_bmc_secret(&mut self) {
        let Some(appliance) = &self.appliance else { return };
        let secrets = appliance.secrets.clone();
        self.executor.spawn(appliance.life, Box::pin(async move { drop(secrets.delete(NAMESPACE, "bmc-0").await) }));
        self.settle_tasks();
    }

    fn host(&self) -> BareMetalHost {
        self.host_object("host-0").unwrap_or_default()
    }

    /// `reason: message` of the condition that says whether the host can be managed.
    fn says(&self) -> String {
        let status = self.host().status.unwrap_or_default();
        let found = status.conditions.iter().find(|condition| condition.type_ == "Manageable");
        found.map_or_else(String::new, |found| format!("{}: {}", found.reason, found.message))
    }

    /// Seconds until the host says so.
    fn seconds_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> u64 {
        let began = self.now();
        while !holds(self) {
            let passed = self.now() - began;
            assert!(passed < 2 * WINDOW, "{what} did not come: {}\n{}", self.says(), self.story());
            if let Err(violation) = self.run_for(Duration::from_secs(1)) {
                panic!("{violation}");
            }
        }
        (self.now() - began).as_secs()
    }

    fn is_registered(&self) -> bool {
        !matches!(self.state_of("host-0"), None | Some(S::New | S::Registering))
    }

    fn refused(&self) -> (usize, bool) {
        self.machines[0].account.as_ref().map_or((0, false), |account| (account.refused.len(), account.was_locked))
    }
}

/// A host whose Secret has this password.
fn world(password: &str) -> World {
    let mut world = World::new(Setup { seed: 5, machines: 1, wild: false, bug: None, so_far: Counts::default() });
    world.machines[0].account = Some(Account::default());
    world.restore_secrets(0);
    world.settle_tasks();
    world.set_password(password);
    world.create(0, Birth::WithBmc);
    world.settle_tasks();
    world
}

#[test]
fn a_wrong_password_is_said_and_a_right_one_taken_at_once() {
    let mut world = world("wrong");
    let after = world.seconds_until("the reason", |world| world.says().starts_with("RegistrationFailed"));
    assert!(after <= 60, "{after} s");
    assert!(world.says().contains("refuses the user name or password in Secret bmc-0"), "{}", world.says());
    world.set_password("secret");
    let after = world.seconds_until("the registration", World::is_registered);
    assert!(after <= 5, "{after} s");
}

#[test]
fn a_hundred_edits_in_a_minute_lock_no_account() {
    let mut world = world("wrong");
    for edit in 0..100 {
        world.set_password(&format!("wrong {edit}"));
        if let Err(violation) = world.run_for(Duration::from_millis(600)) {
            panic!("{violation}");
        }
    }
    assert_eq!(world.refused(), (TRIES - 1, false), "as many as may be, and no more");
    assert!(world.says().contains("may lock the account"), "{}", world.says());
    // Nor do those after it, and a start of the appliance forgets none of them.
    world.kill();
    for edit in 0..30 {
        world.set_password(&format!("wrong again {edit}"));
        if let Err(violation) = world.run_for(Duration::from_secs(15)) {
            panic!("{violation}");
        }
    }
    assert!(!world.refused().1, "the account was locked");
    world.set_password("secret");
    let after = world.seconds_until("the registration", World::is_registered);
    assert!(after <= WINDOW.as_secs() + 5 && !world.refused().1, "{after} s");
}

#[test]
fn a_missing_secret_and_a_blank_one_are_told_apart() {
    let says = |word: &'static str| move |world: &World| world.says().contains(word);
    let mut world = world("wrong");
    world.drop_bmc_secret();
    let after = world.seconds_until("the reason", says("does not exist"));
    assert!(after <= 60, "{after} s");
    // Made again with the right password.
    world.restore_secrets(0);
    world.settle_tasks();
    let after = world.seconds_until("the registration", World::is_registered);
    assert!(after <= 10, "{after} s after the Secret was made");

    let mut world = self::world(" ");
    let after = world.seconds_until("the reason", says("must have the keys username and password"));
    assert!(after <= 60, "{after} s");
    let asked = world.kinds.get("bmc request").copied().unwrap_or(0);
    if let Err(violation) = world.run_for(2 * WINDOW) {
        panic!("{violation}");
    }
    assert_eq!(world.kinds.get("bmc request").copied().unwrap_or(0), asked, "nothing is tried before an edit");
    world.set_password("secret");
    let after = world.seconds_until("the registration", World::is_registered);
    assert!(after <= 5, "{after} s");
}
