//! A host's BMC: a Redfish service with a memory, beside the appliance. No machine is behind it: a test says what its
//! host does, and looks at what the appliance had it do.

use firesteel_bmc::{BmcCredentials, PowerState};
use firesteel_bmc_fakes::redfish::Fake;
use firesteel_tests::field::mac;
use serde_json::{Value, json};
use tokio::{net::TcpListener, runtime::Runtime};

const USER: &str = "admin";
const PASSWORD: &str = "correct horse";

pub(crate) struct Bmc {
    pub(crate) fake: Fake,
    address: String,
    /// Its threads are in the namespace of the thread that made it, which is the appliance's.
    _runtime: Runtime,
}

impl Bmc {
    /// Starts one with these quirks for a machine that is off.
    pub(crate) fn start(machine: u8, quirks: &Value) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let login = BmcCredentials { username: USER.into(), password: PASSWORD.into() };
        let fake = Fake::new(login, mac(machine).0);
        fake.state().set_quirks(serde_json::from_value(quirks.clone()).unwrap());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = format!("redfish+http://{}/redfish/v1/Systems/1", listener.local_addr().unwrap());
        runtime.spawn(fake.clone().serve(listener));
        Self { fake, address, _runtime: runtime }
    }

    /// The Secret with its login, by this name.
    pub(crate) fn secret(name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"username": USER, "password": PASSWORD},
        })
    }

    /// As a host names it, with that Secret.
    pub(crate) fn named(&self, secret: &str) -> Value {
        json!({"address": self.address, "credentialsName": secret})
    }

    /// Whether it was ordered to cut the power, after so many orders that it took before.
    pub(crate) fn was_cut(&self, since: usize) -> bool {
        self.fake.state().resets.iter().skip(since).any(|order| order == "ForceOff")
    }

    /// How many orders it took.
    pub(crate) fn orders(&self) -> usize {
        self.fake.state().resets.len()
    }

    /// Its host goes off, whatever was ordered.
    pub(crate) fn goes_off(&self) {
        self.fake.state().power = PowerState::Off;
    }

    /// Its host has not used up the override that was set for one boot.
    pub(crate) fn keeps_override(&self) {
        let mut state = self.fake.state();
        state.boot_enabled = "Once".into();
        state.boot_target = "Pxe".into();
    }

    /// The newest order was to switch its host on, and it is.
    pub(crate) fn has_switched_on(&self) -> bool {
        let state = self.fake.state();
        state.power == PowerState::On && state.resets.last().is_some_and(|order| order == "On")
    }
}
