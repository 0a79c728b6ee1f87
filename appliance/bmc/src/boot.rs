//! Boot overrides: set, in the words and with the ETag that the service takes, and read back.

use http::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::client::{RedfishClient, path_of, seconds};
use crate::decide::shows_overrides;
use crate::decide::{
    BmcBootMode, NextBootSource, WantedBootOverride, boot_difference, boot_left, etag_ladder, is_boot_stuck, once_read,
    plan_boot,
};
use crate::error::{Error, plain_text};
use crate::model::{RedfishSystem, ServiceRoot};
use crate::power_outcome::{BootSet, OverrideReading};
use crate::quirks::BmcQuirks;
use crate::response::BmcResponse;

impl RedfishClient {
    /// The next boot from `target`, and from then on as before; read back afterwards.
    ///
    /// # Errors
    /// What the BMC cannot do or does not take.
    pub async fn set_boot_once(&self, target: NextBootSource, mode: Option<BmcBootMode>) -> Result<BootSet, Error> {
        self.set_boot(&WantedBootOverride { mode, ..WantedBootOverride::once(target) }).await
    }

    /// Any override; read back until it is as wished or [`crate::BmcTimeouts::read_back`] has passed.
    ///
    /// # Errors
    /// What the BMC cannot do or does not take.
    pub async fn set_boot(&self, wish: &WantedBootOverride<'_>) -> Result<BootSet, Error> {
        let (system, etags) = self.read_system().await?;
        let firmware = if wish.target == NextBootSource::Cd { self.firmware(&system).await? } else { String::new() };
        let quirks = self.quirks(&system, &firmware);
        let body = match plan_boot(&system, wish, quirks) {
            Ok(body) => body,
            // Its host may boot from the network by itself all the same.
            Err(Error::Unsupported { what }) if wish.target == NextBootSource::Pxe => {
                return Ok(BootSet::NotOffered { why: format!("it cannot {what}") });
            }
            Err(error) => return Err(error),
        };
        let what = format!("the boot override {}", wish.target.as_str());
        let (path, etags) = self.boot_resource(&system, etags, quirks).await?;
        let answer = self.patch(&path, &body, &etag_ladder(&etags, quirks)).await?;
        let status = answer.status.as_u16();
        match answer.accepted(&what, &path) {
            Ok(_) => {}
            Err(error @ (Error::Refused { .. } | Error::Unsupported { .. })) if !shows_overrides(&system) => {
                return Ok(BootSet::NotOffered { why: format!("it shows none, and {error}") });
            }
            Err(error) => return Err(error),
        }
        self.read_boot_back(wish, quirks, &format!("PATCH {path} was answered {status}")).await
    }

    /// Takes back an override that was meant for one boot and stays on this BMC; others are left alone.
    ///
    /// # Errors
    /// What the BMC cannot do or does not take.
    pub async fn free_boot(&self) -> Result<Option<BootSet>, Error> {
        let (system, _) = self.read_system().await?;
        if !is_boot_stuck(&system, self.quirks(&system, "")) {
            return Ok(None);
        }
        self.set_boot(&WantedBootOverride::once(NextBootSource::None)).await.map(Some)
    }

    /// Takes back whatever override for a boot into our ramdisk is left, once that boot is over. `None`: there is none.
    ///
    /// # Errors
    /// What the BMC cannot do or does not take.
    pub async fn take_boot_back(&self) -> Result<Option<BootSet>, Error> {
        let (system, _) = self.read_system().await?;
        match boot_left(&system) {
            Some(_) => self.set_boot(&WantedBootOverride::once(NextBootSource::None)).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads whether the boot that an override was set for has used it up. Changes nothing.
    ///
    /// # Errors
    /// What keeps the BMC from being asked.
    pub async fn read_once(&self) -> Result<OverrideReading, Error> {
        let (system, _) = self.read_system().await?;
        Ok(once_read(&system, self.quirks(&system, "")))
    }

    async fn read_boot_back(
        &self,
        wish: &WantedBootOverride<'_>,
        quirks: BmcQuirks,
        sent: &str,
    ) -> Result<BootSet, Error> {
        let asked_at = Instant::now();
        loop {
            let (system, _) = self.read_system().await?;
            let Some(difference) = boot_difference(&system, wish, quirks) else { break };
            let passed = asked_at.elapsed();
            let but_for_mode = WantedBootOverride { mode: None, ..*wish };
            if quirks.changes_mode_by_job && boot_difference(&system, &but_for_mode, quirks).is_none() {
                let seen =
                    format!("{sent}, the system says {difference}, and changes the mode by a job when it starts");
                return Ok(BootSet::Unverified { seen });
            }
            // It is known to stay so.
            let is_final = !wish.is_lasting && is_boot_stuck(&system, quirks);
            if is_final || passed + self.patience.pause > self.patience.read_back {
                let later = format!("{sent}, and {} later", seconds(passed));
                if !shows_overrides(&system) {
                    return Ok(BootSet::NotOffered { why: format!("{later} the system shows none") });
                }
                let seen = format!("{later} the system says {difference}");
                return Ok(BootSet::Unverified { seen });
            }
            sleep(self.patience.pause).await;
        }
        if wish.target == NextBootSource::Cd && quirks.cd_may_be_physical {
            let seen = format!("{sent}; with this firmware a CD may be a drive in the machine, and no virtual one");
            return Ok(BootSet::Unverified { seen });
        }
        Ok(BootSet::Confirmed)
    }

    /// Finds the resource that takes boot overrides, and its ETags.
    async fn boot_resource(
        &self,
        system: &RedfishSystem,
        etags: Vec<String>,
        quirks: BmcQuirks,
    ) -> Result<(String, Vec<String>), Error> {
        let settings = system.settings.as_ref().and_then(|settings| path_of(settings.settings_object.as_ref()));
        let Some(path) = settings.filter(|_| quirks.boot_in_settings) else {
            return Ok((self.system.clone(), etags));
        };
        let answer = self.get(&path).await?;
        let told = answer.json_if_there::<RedfishSystem>().and_then(|settings| settings.etag);
        Ok((path, answer.etag().into_iter().chain(told).collect()))
    }

    /// A PATCH with each If-Match in turn, while it is the If-Match that is refused.
    async fn patch(&self, path: &str, body: &Value, ladder: &[Option<String>]) -> Result<BmcResponse, Error> {
        let mut refused = None;
        for if_match in ladder {
            let answer = self.change(Method::PATCH, path, body, if_match.as_deref()).await?;
            if !matches!(answer.status.as_u16(), 412 | 428) {
                return Ok(answer);
            }
            refused = Some(answer);
        }
        refused.ok_or_else(|| Error::Unsupported { what: "be changed".to_owned() })
    }

    async fn firmware(&self, system: &RedfishSystem) -> Result<String, Error> {
        let managers = self.managers(system).await?;
        Ok(managers.into_iter().find_map(|manager| manager.firmware_version).unwrap_or_default())
    }

    /// What the service says of itself without a login.
    #[must_use]
    pub fn service(&self) -> (Option<String>, Option<String>, Option<String>) {
        let ServiceRoot { vendor, product, redfish_version, .. } = &self.root;
        let text = |value: &Option<String>| value.as_deref().map(|text| plain_text(text.trim()));
        (text(vendor), text(product), text(redfish_version))
    }
}
