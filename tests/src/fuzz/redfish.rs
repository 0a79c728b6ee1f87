//! What BMCs answer, and the addresses under which users say that they are.

use firesteel_bmc::address::own_path;
use firesteel_bmc::decide::{
    BmcBootMode, NextBootSource, PowerAction, PowerPlan, WantedBootOverride, boot_difference, etag_ladder, plan_boot,
    plan_power,
};
use firesteel_bmc::model::{self, RedfishSystem, ServiceRoot};
use firesteel_bmc::quirks::{QuirkSubject, quirks_of};
use firesteel_bmc::{BmcUrl, PowerState};

pub(super) fn check(input: &[u8]) {
    model::check(input);
    if let Some(message) = model::error_message(input) {
        super::assert_plain(&message);
    }
    if let Ok(system) = serde_json::from_slice::<RedfishSystem>(input) {
        // The same bytes as what the service says of itself: each row of quirks is reached.
        let root = serde_json::from_slice::<ServiceRoot>(input).unwrap_or_default();
        let quirks = quirks_of(&QuirkSubject::of(&root, &system));
        let state = PowerState::of(&system);
        for action in PowerAction::ALL {
            match plan_power(&system, action, quirks) {
                PowerPlan::Nothing => assert!(action.is_reached(state), "{action:?} in {state:?}"),
                PowerPlan::Reset { target, .. } => stays(&target),
                PowerPlan::Impossible { what } => super::assert_plain(&what),
            }
        }
        for (target, mode) in
            NextBootSource::ALL.into_iter().flat_map(|target| [(target, None), (target, Some(BmcBootMode::Uefi))])
        {
            let wish =
                WantedBootOverride { mode, http_uri: Some("http://192.0.2.1/x"), ..WantedBootOverride::once(target) };
            match plan_boot(&system, &wish, quirks) {
                Ok(body) => assert!(body["Boot"]["BootSourceOverrideTarget"].is_string()),
                Err(why) => super::assert_plain(&why.to_string()),
            }
            if let Some(difference) = boot_difference(&system, &wish, quirks) {
                super::assert_plain(&difference);
            }
        }
        let etags: Vec<String> = system.etag.into_iter().collect();
        let ladder = etag_ladder(&etags, quirks);
        assert!(ladder.len() <= 4 && ladder.contains(&None), "each ladder ends, and tries none");
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    if own_path(text).is_some() {
        stays(text);
    }
    if let Ok(address) = BmcUrl::parse(text) {
        assert_eq!(BmcUrl::parse(&address.to_string()).as_ref(), Ok(&address));
        assert!(matches!(address.origin().scheme(), "http" | "https") && address.origin().path() == "/");
        assert!(address.origin().username().is_empty() && address.origin().password().is_none());
        if let Some(system) = address.system() {
            stays(system);
        }
        assert!(address.place().contains(':'));
    }
}

/// A path that is followed with the BMC's credentials is the one that was looked at: no parser of URLs makes another
/// of it.
fn stays(path: &str) {
    let mut url = reqwest::Url::parse("https://192.0.2.9/").unwrap();
    url.set_path(path);
    assert!(url.path().contains("/redfish/"), "{path} leads to {url}");
    assert_eq!((url.host_str(), url.query(), url.fragment()), (Some("192.0.2.9"), None, None));
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        r##"{"PowerState":"On","Manufacturer":"HPE","Model":7,"UUID":"u","Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Hdd"]},"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset","ResetType@Redfish.AllowableValues":["On","ForceOff","GracefulShutdown","ForceRestart"]}},"EthernetInterfaces":{"@odata.id":"/redfish/v1/Systems/1/EthernetInterfaces"}}"##,
        r##"{"PowerState":"Off","Actions":{"#ComputerSystem.Reset":{"target":"/redfish/%2e%2e/admin","ResetType@Redfish.AllowableValues":null}}}"##,
        r#"{"RedfishVersion":"1.6.0","Systems":{"@odata.id":"/redfish/v1/Systems"},"Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}"#,
        r#"{"Members":[{"@odata.id":"/redfish/v1/Systems/1"},{"@odata.id":7}]}"#,
        r#"{"Temperatures":[{"MemberId":"0","Name":"CPU1 Temp","ReadingCelsius":"49","Status":{"State":"Enabled","Health":"OK"}}],"Fans":[{"FanName":"Fan 1","Reading":5160,"ReadingUnits":"RPM"},{"CurrentReading":17}]}"#,
        r#"{"PowerControl":[{"PowerConsumedWatts":312}],"PowerSupplies":[{"Name":"PS1","LastPowerOutputWatts":1e9,"Status":{"Health":"Critical"}}],"PowerWatts":{"Reading":374.5}}"#,
        r#"{"Name":"T","ReadingType":"Temperature","ReadingUnits":"Cel","Reading":"NaN","FailurePredicted":true,"SpeedPercent":{"Reading":45,"SpeedRPM":2100},"Status":{"HealthRollup":"Warning"}}"#,
        r#"{"MACAddress":"AA:bb:00:01:02:03","PermanentMACAddress":null}"#,
        r#"{"error":{"code":"Base.1.0.GeneralError","message":"general","@Message.ExtendedInfo":[{"Message":"the \u001b[31mreason"}]}}"#,
        "redfish://10.0.0.5/redfish/v1/Systems/1",
        "redfish+http://[fd00::1]:8000/redfish/v1/Systems/a-b/",
        "redfish://10.0.0.5/rack/7/redfish/v1/Systems/cluster/node-0",
        "redfish://root:calvin@10.0.0.5",
        "idrac-virtualmedia+https://10.0.0.5/redfish/v1/Systems/System.Embedded.1",
        "redfish-uefihttp+http://bmc.example:8000/redfish/v1/Systems/1",
        r#"{"Vendor":"AMI","Manufacturer":"ASRockRack","@odata.etag":"W/\"1\"","Boot":{"BootSourceOverrideEnabled":"Continuous","BootSourceOverrideTarget":"UsbCd","HttpBootUri":null},"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/Self/SD"}}}"#,
        r##"{"MediaTypes":["CD","DVD"],"Image":"","Inserted":false,"Actions":{"#VirtualMedia.InsertMedia":{"target":"/redfish/v1/Managers/1/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"}}}"##,
        r#"{"DeviceLocator":"DIMM1","CapacityMiB":32768,"Status":{"Health":"OK","HealthRollup":null}}"#,
        r#"{"Parameters":[{"Name":"ResetType","AllowableValues":["On","ForceOff"]}]}"#,
        "/redfish/v1/Systems/1",
        "/redfish/v1/../../admin",
        "/redfish/%2E%2e/admin",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into_iter()
    // As long as is allowed, and longer when it is shown in full.
    .chain([format!("redfish://{}", "a".repeat(502)).into_bytes()])
    .collect()
}
