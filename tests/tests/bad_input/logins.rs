//! Logins that a BMC refuses: told soon, mended at once, and never so many that the BMC locks the account. The BMC
//! counts them itself, over real sockets.

use std::sync::atomic::Ordering;
use std::time::Duration;

use firesteel_bmc::BmcCredentials;
use firesteel_bmc::sensors::{SensorHealth, SensorLayout};
use firesteel_bmc_fakes::redfish::{Fake, RedfishFault};
use firesteel_control::SensorReadError;
use firesteel_kube::ObjectPart;
use firesteel_resources::bare_metal_host::{BmcDetails, ProvisioningState};
use firesteel_resources::{Secret, secret::SecretBytes};
use firesteel_runtime::HostKey;
use tokio::net::TcpListener;

use crate::appliance::{Appliance, NAMESPACE, until};

pub(crate) const PASSWORD: &str = "correct horse";
/// Refused logins after which common BMCs lock an account.
const LOCKS_AFTER: u32 = 5;

/// A BMC that locks, and its address.
pub(crate) async fn bmc(faults: Vec<RedfishFault>) -> (Fake, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("redfish+http://{}/redfish/v1/Systems/1", listener.local_addr().unwrap());
    let credentials = BmcCredentials { username: "admin".into(), password: PASSWORD.into() };
    let fake = Fake::new(credentials, [2, 0, 0, 0, 8, 1]);
    fake.state().locks_after = Some(LOCKS_AFTER);
    // Hosts that share it tell their own.
    fake.state().macs = Vec::new();
    fake.state().faults = faults;
    tokio::spawn(fake.clone().serve(listener));
    (fake, address)
}

pub(crate) async fn add_login(appliance: &Appliance, password: &str) {
    let mut login = Secret::default();
    "login".clone_into(&mut login.metadata.name);
    NAMESPACE.clone_into(&mut login.metadata.namespace);
    for (key, value) in [("username", "admin"), ("password", password)] {
        login.data.insert(key.to_owned(), SecretBytes(value.as_bytes().to_vec()));
    }
    appliance.secrets.create(&login).await.unwrap();
}

pub(crate) async fn set_password(appliance: &Appliance, password: &str) {
    let set = |login: &mut Secret| {
        login.data.insert("password".to_owned(), SecretBytes(password.as_bytes().to_vec()));
    };
    appliance.secrets.modify(NAMESPACE, "login", ObjectPart::Main, set).await.unwrap().unwrap();
}

pub(crate) async fn add_host(appliance: &Appliance, name: &str, mac: &str, address: &str) {
    let bmc = BmcDetails { address: address.into(), credentials_name: "login".into(), ..BmcDetails::default() };
    appliance.add_with(name, mac, None, |host| host.spec.bmc = Some(bmc)).await;
}

async fn is_in(appliance: &Appliance, name: &str) -> bool {
    let status = appliance.status(name).await;
    let state = status.provisioning.state;
    let is_outside =
        matches!(state, ProvisioningState::New | ProvisioningState::Unmanaged | ProvisioningState::Registering);
    status.error_message.is_empty() && !is_outside
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_and_the_right_one_taken_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(folder.path()).await;
    let (fake, address) = bmc(Vec::new()).await;
    add_login(&appliance, "wrong").await;
    add_host(&appliance, "told", "02:00:00:00:08:01", &address).await;
    let error = appliance.error("told").await;
    assert!(error.contains("refuses the user name or password in Secret login"), "{error}");
    set_password(&appliance, PASSWORD).await;
    // The clock stands still here: nothing has to pass.
    until("the right password is taken", async || is_in(&appliance, "told").await).await;
    assert_eq!(fake.state().logins_refused, 0);
    until("no session is left", async || fake.state().sessions.is_empty()).await;
    until("what the BMC tells is kept", async || appliance.journal("told").await.status.bmc.is_some()).await;
    let record = appliance.journal("told").await.status.bmc.unwrap();
    assert_eq!((&*record.health, record.secure_boot, record.modules.len()), ("Warning", Some(false), 2));
    let conditions = appliance.status("told").await.conditions;
    let trust = conditions.iter().find(|condition| condition.type_ == "BMCTrusted").unwrap();
    assert_eq!(trust.reason, "PlainHTTP", "a standing warning");
}

/// Sensors are read each minute: a wrong password would lock the account within five of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reading_of_sensors_tries_no_login_that_the_bmc_did_not_take_before() {
    let folder = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(folder.path()).await;
    let (fake, address) = bmc(Vec::new()).await;
    add_login(&appliance, "wrong").await;
    add_host(&appliance, "read", "02:00:00:00:08:01", &address).await;
    appliance.error("read").await;
    let key = HostKey { namespace: NAMESPACE.to_owned(), name: "read".to_owned() };
    let sensors = &appliance.control.sensors;
    for _ in 0..20 {
        let reading = sensors.read(&key, &mut SensorLayout::default()).await;
        assert_eq!(reading, Err(SensorReadError::NotNow));
    }
    // Those of the host itself.
    assert!(fake.state().logins_refused <= 2, "{}", fake.state().logins_refused);
    set_password(&appliance, PASSWORD).await;
    until("the right password is taken", async || is_in(&appliance, "read").await).await;
    until("the sensors are read", async || {
        let reading = sensors.read(&key, &mut SensorLayout::default()).await;
        reading.is_ok_and(|reading| reading.sensors.len() > 5 && reading.system == Some(SensorHealth::Warning))
    })
    .await;
    until("no session is left", async || fake.state().sessions.is_empty()).await;
    set_password(&appliance, "wrong again").await;
    let reading = sensors.read(&key, &mut SensorLayout::default()).await;
    assert_eq!(reading, Err(SensorReadError::NotNow), "another Secret has to prove itself first");
}

/// Two hosts of one BMC, one Secret, a hundred edits in a minute, all wrong; whichever way the BMC takes logins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_edits_in_a_minute_lock_no_account() {
    for faults in [vec![], vec![RedfishFault::NoSessions]] {
        let folder = tempfile::tempdir().unwrap();
        let appliance = Appliance::start(folder.path()).await;
        let (fake, address) = bmc(faults.clone()).await;
        add_login(&appliance, "wrong").await;
        add_host(&appliance, "one", "02:00:00:00:08:01", &address).await;
        add_host(&appliance, "two", "02:00:00:00:08:02", &address).await;
        for edit in 0..100 {
            set_password(&appliance, &format!("wrong {edit}")).await;
            if edit % 5 < 3 {
                appliance.ahead_s.fetch_add(1, Ordering::SeqCst);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Of both: then none is under way, and the clock may go on.
        for name in ["one", "two"] {
            until(&format!("{faults:?}: {name} is held back"), async || {
                appliance.touch(name).await;
                appliance.status(name).await.error_message.contains("it is not tried again before")
            })
            .await;
        }
        let refused = fake.state().logins_refused;
        assert!((2..LOCKS_AFTER).contains(&refused) && !fake.state().is_locked(), "{faults:?}: {refused} were refused");
        set_password(&appliance, PASSWORD).await;
        // What is held back is tried again when the BMC has forgotten: the hosts wait for that by themselves.
        appliance.ahead_s.fetch_add(601, Ordering::SeqCst);
        for name in ["one", "two"] {
            set_password(&appliance, PASSWORD).await;
            until(&format!("{faults:?}: {name} is in"), async || {
                appliance.touch(name).await;
                is_in(&appliance, name).await
            })
            .await;
        }
        assert_eq!(fake.state().logins_refused, 0, "{faults:?}: the account was never locked");
    }
}
