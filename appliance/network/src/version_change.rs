//! Another version of the appliance is said once: Progressing with both versions, and then as it is (S0-4, S0.29). The
//! stored version is the marker: it changes only once all services run under the new program.

use firesteel_resources::condition::find_condition;
use firesteel_resources::{Condition, ConditionStatus};

use crate::conditions::SyncReason;

/// What is stored of the version, on an object or a ClusterOperator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredVersion<'a> {
    /// Is empty where none was stored yet.
    pub(crate) version: &'a str,
    pub(crate) conditions: &'a [Condition],
}

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VersionedReport {
    pub(crate) reason: SyncReason,
    pub(crate) message: String,
    pub(crate) version: String,
}

/// Decides what is written of a report by a program of the version `running`.
pub(crate) fn report_version(
    stored: StoredVersion<'_>,
    running: &str,
    reason: SyncReason,
    message: &str,
) -> VersionedReport {
    let written =
        |reason, message: String, version: &str| VersionedReport { reason, message, version: version.to_owned() };
    if stored.version.is_empty() || stored.version == running {
        return written(reason, message.to_owned(), running);
    }
    let change = format!("the appliance was changed from {} to {running}", stored.version);
    let was_said = find_condition(stored.conditions, "Progressing").is_some_and(|progressing| {
        progressing.status == ConditionStatus::True && progressing.message.starts_with(&change)
    });
    match reason {
        SyncReason::DeployComplete | SyncReason::WaitingForProvisioningCr if was_said => {
            written(reason, message.to_owned(), running)
        }
        SyncReason::DeployComplete | SyncReason::WaitingForProvisioningCr | SyncReason::SyncingResources => {
            written(SyncReason::SyncingResources, format!("{change}; {message}"), stored.version)
        }
        // Nothing changes where nothing runs.
        SyncReason::UnsupportedPlatform => written(reason, message.to_owned(), running),
        // What is wrong is said first; the change is said once that is over.
        SyncReason::ResourceNotFound
        | SyncReason::InvalidConfiguration
        | SyncReason::DeployTimedOut
        | SyncReason::DeploymentCrashLooping => written(reason, message.to_owned(), stored.version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::sync_conditions;

    /// Reports of a program, one after the other, with what each leaves.
    fn run(stored: &mut VersionedReport, running: &str, reports: &[(SyncReason, &str)]) -> Vec<VersionedReport> {
        let mut written = Vec::new();
        for (reason, message) in reports {
            let conditions = sync_conditions(stored.reason, &stored.message, None);
            let before = StoredVersion { version: &stored.version, conditions: &conditions };
            *stored = report_version(before, running, *reason, message);
            written.push(stored.clone());
        }
        written
    }

    fn of(reason: SyncReason, message: &str, version: &str) -> VersionedReport {
        VersionedReport { reason, message: message.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn another_version_is_progress_once_and_then_it_is_stored() {
        use SyncReason::{DeployComplete, SyncingResources};
        let starts = [(SyncingResources, "services start"), (DeployComplete, "all run"), (DeployComplete, "all run")];
        let mut stored = of(DeployComplete, "all run", "1.0.0");
        let change = "the appliance was changed from 1.0.0 to 1.1.0; services start";
        assert_eq!(
            run(&mut stored, "1.1.0", &starts),
            [
                of(SyncingResources, change, "1.0.0"),
                of(DeployComplete, "all run", "1.1.0"),
                of(DeployComplete, "all run", "1.1.0")
            ]
        );
        // Restarted, it says nothing of it; and back again, it does.
        let again = run(&mut stored, "1.1.0", &starts);
        assert_eq!(again[0], of(SyncingResources, "services start", "1.1.0"));
        assert!(
            run(&mut stored, "1.0.0", &starts)[0].message.starts_with("the appliance was changed from 1.1.0 to 1.0.0")
        );
        // Where nothing has to start it is said all the same.
        let mut stored = of(DeployComplete, "all run", "1.0.0");
        let written = run(&mut stored, "1.1.0", &starts[1..]);
        assert_eq!((written[0].reason, written[0].version.as_str()), (SyncingResources, "1.0.0"));
        assert_eq!(written[1], of(DeployComplete, "all run", "1.1.0"));
    }

    #[test]
    fn what_is_wrong_comes_before_the_change_and_the_first_version_is_none() {
        use SyncReason::{DeployComplete, DeployTimedOut, WaitingForProvisioningCr};
        let mut stored = of(DeployComplete, "all run", "1.0.0");
        let written =
            run(&mut stored, "1.1.0", &[(DeployTimedOut, "dhcp"), (DeployComplete, ""), (DeployComplete, "")]);
        assert_eq!(written[0], of(DeployTimedOut, "dhcp", "1.0.0"));
        assert_eq!(written[1].reason, SyncReason::SyncingResources);
        assert_eq!(written[2], of(DeployComplete, "", "1.1.0"));
        let mut new = of(DeployComplete, "", "");
        assert_eq!(run(&mut new, "1.1.0", &[(DeployComplete, "all run")]), [of(DeployComplete, "all run", "1.1.0")]);
        let mut waiting = of(WaitingForProvisioningCr, "waiting", "1.0.0");
        let written =
            run(&mut waiting, "1.1.0", &[(WaitingForProvisioningCr, "waiting"), (WaitingForProvisioningCr, "waiting")]);
        assert_eq!((written[0].reason, written[1].reason), (SyncReason::SyncingResources, WaitingForProvisioningCr));
    }
}
