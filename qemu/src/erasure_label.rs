//! What the appliance says of an erasure that claims a grade, wherever people and programs read it: by proof, where the
//! BMC showed all that tells the host from another machine, else unverified.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::{appliance::ApplianceError, bmc::BmcKind, lab::Lab, progress::print_status};

/// Words of a grade, in what people read.
const CLAIMS: [&str; 4] = ["purge", "grade clear", "cleared by", "800-88 clear"];

/// What an erasure is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErasureLabel {
    Proven,
    Unverified,
}

impl ErasureLabel {
    /// The label of erasures behind a BMC of this kind. sushy-tools keeps an override for one boot as one for all, and
    /// ipmi_sim does not show the boot flags that it took.
    #[must_use]
    pub(crate) fn expected_label(bmc: BmcKind) -> Self {
        match bmc {
            BmcKind::Redfish => Self::Proven,
            BmcKind::Ipmi | BmcKind::Sushy | BmcKind::None => Self::Unverified,
        }
    }
}

/// The host's conditions, its page and its receipts call its erasure so.
pub(crate) async fn check(lab: &Lab, name: &str, called: ErasureLabel) -> anyhow::Result<()> {
    let host = lab.object("hosts", name).await?;
    let erased = condition(&host, "DisksErased").with_context(|| format!("{name} has no condition DisksErased"))?;
    let wipe = condition(&host, "WipeUnverified");
    let is_unverified = wipe.as_ref().is_some_and(|wipe| wipe["status"] == "True");
    let wanted = match called {
        ErasureLabel::Proven => ("True", "Erased", false),
        ErasureLabel::Unverified => ("False", "ErasedUnverified", true),
    };
    let text = |key: &str| erased[key].as_str().unwrap_or_default();
    let found = (text("status"), text("reason"), is_unverified);
    ensure!(found == wanted, "{name} is erased and not called {called:?}: {erased}, {wipe:?}");
    let words = flat(&lab.appliance.cli(&["describe", "host", name]).await?);
    let grades = grades(lab, name).await?;
    ensure!(!grades.is_empty(), "{name} has no signed receipt of an erasure");
    let is_graded = |grade: &String| ["clear", "purge"].contains(&grade.as_str());
    match called {
        ErasureLabel::Proven => {
            ensure!(words.contains("800-88"), "the page of {name} says no grade: {words}");
            ensure!(grades.iter().all(is_graded), "receipts of {name} have the grades {grades:?}");
        }
        ErasureLabel::Unverified => {
            let claim = CLAIMS.iter().find(|claim| words.contains(**claim));
            ensure!(claim.is_none(), "the page of {name} claims {claim:?}: {words}");
            ensure!(!grades.iter().any(is_graded), "receipts of {name} have the grades {grades:?}");
        }
    }
    print_status(&format!("{name}: {}", text("message")));
    Ok(())
}

fn condition(host: &Value, kind: &str) -> Option<Value> {
    let conditions = host.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind).cloned()
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The grades of the host's signed receipts of erasures.
async fn grades(lab: &Lab, name: &str) -> anyhow::Result<Vec<String>> {
    let receipts = lab.appliance.json(&["receipt", "list", name]).await?;
    let all = receipts.as_array().context("the list of receipts is none")?;
    let erased = all.iter().filter(|receipt| receipt["status"]["kind"] == "erased");
    Ok(erased.map(|receipt| receipt["status"]["grade"].as_str().unwrap_or_default().to_owned()).collect())
}

/// Receipts of the write and of the erasure are taken out and checked, without the appliance.
pub(crate) async fn check_receipts(lab: &Lab, name: &str, called: ErasureLabel) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("making a folder for receipts")?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let key = text(&folder.path().join("receipts.pem"));
    std::fs::write(&key, lab.appliance.cli(&["receipt", "key"]).await?).context("writing the key of receipts")?;
    lab.appliance.cli(&["receipt", "export", name, "--dir", &text(folder.path())]).await?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder.path()).context("reading the folder of receipts")? {
        files.extend(Some(entry?.path()).filter(|path| path.extension().is_some_and(|word| word == "receipt")));
    }
    ensure!(files.len() >= 2, "{name} has {} receipts, and a disk was written and erased", files.len());
    let files: Vec<String> = files.iter().map(|path| text(path)).collect();
    let arguments = ["receipt", "verify", "--key", &key].into_iter().chain(files.iter().map(String::as_str));
    match (lab.appliance.cli(&arguments.collect::<Vec<_>>()).await, called) {
        (Ok(_), ErasureLabel::Proven) => Ok(()),
        (Ok(_), ErasureLabel::Unverified) => bail!("receipt verify calls the erasure of {name} verified"),
        (Err(ApplianceError::Refused { message, .. }), ErasureLabel::Unverified)
            if message.contains("are unverified") =>
        {
            Ok(())
        }
        (Err(error), _) => Err(error.into()),
    }
}
