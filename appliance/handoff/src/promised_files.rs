//! What the forms of a hand-off promise: each file by its digest, as the agent reads it back. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_resources::host_journal::{HandedFile, PromisedForm, PromisedForms};
use firesteel_wire::hand_off::{FIRST_BOOT, Forms, HandOffForm, KernelArgumentEdit};
use firesteel_wire::{AgentPlan, HandOffFile, PlanStep};
use ring::digest::{SHA256, digest};

/// Reads what a plan promises to hand over; nothing where it has no such step.
#[must_use]
pub fn of_plan(plan: &AgentPlan) -> Option<PromisedForms> {
    plan.steps.iter().find_map(|step| {
        let PlanStep::HandOff { forms, .. } = step else { return None };
        forms.as_deref().map(of_forms)
    })
}

/// The forms that the agent may take: the one that is named, or all that are offered.
fn of_forms(forms: &Forms) -> PromisedForms {
    let has = |arguments: &Option<KernelArgumentEdit>| {
        arguments.as_ref().is_some_and(|arguments| !arguments.append.is_empty() || !arguments.delete.is_empty())
    };
    let may_be = |form: &HandOffForm| forms.form == HandOffForm::Auto || forms.form == *form;
    let promised = |form: HandOffForm| PromisedForm {
        files: files(forms, form),
        arguments: has(&forms.arguments) || (form == HandOffForm::KernelArguments && has(&forms.kernel_arguments)),
    };
    forms.offers().into_iter().filter(may_be).map(|form| (form.name().to_owned(), promised(form))).collect()
}

fn files(forms: &Forms, form: HandOffForm) -> Vec<HandedFile> {
    let volume = match form {
        HandOffForm::ConfigDrive => &forms.config_drive,
        HandOffForm::NoCloud => &forms.no_cloud,
        HandOffForm::BootPartition => return on_boot_partition(forms),
        HandOffForm::Auto | HandOffForm::KernelArguments => &None,
    };
    volume.iter().flat_map(|volume| &volume.files).map(handed).collect()
}

fn on_boot_partition(forms: &Forms) -> Vec<HandedFile> {
    let Some(boot) = &forms.boot_partition else { return Vec::new() };
    let mut files: Vec<HandedFile> = boot.files.iter().map(handed).collect();
    if let Some(text) = boot.first_boot() {
        files.retain(|file| file.path != FIRST_BOOT);
        files.push(of_content(FIRST_BOOT, text.as_bytes()));
    }
    files
}

fn handed(file: &HandOffFile) -> HandedFile {
    // The appliance encoded it itself; what the agent cannot decode it does not hand over.
    of_content(&file.path, &STANDARD.decode(&file.content_base64).unwrap_or_default())
}

fn of_content(path: &str, content: &[u8]) -> HandedFile {
    let sha256 = hex::encode(digest(&SHA256, content));
    HandedFile { path: path.to_owned(), bytes: content.len() as u64, sha256 }
}

#[cfg(test)]
mod tests {
    use firesteel_wire::hand_off::{BootPartition, HandOffVolume};

    use super::*;

    fn file(path: &str, content: &str) -> HandOffFile {
        HandOffFile { path: path.into(), mode: 0o600, content_base64: STANDARD.encode(content) }
    }

    fn forms(form: HandOffForm) -> Forms {
        let files = vec![file("ignition/config.ign", "{}"), file(FIRST_BOOT, "")];
        Forms {
            form,
            boot_partition: Some(BootPartition { files, network: vec!["ip=dhcp".into()] }),
            kernel_arguments: Some(KernelArgumentEdit { append: vec!["a=b".into()], delete: Vec::new() }),
            config_drive: Some(HandOffVolume { volume_id: 1, files: vec![file("openstack/latest/user_data", "{}")] }),
            ..Forms::default()
        }
    }

    #[test]
    fn each_form_promises_its_own_files_and_a_named_one_alone() {
        let all = of_forms(&forms(HandOffForm::Auto));
        assert_eq!(all.keys().collect::<Vec<_>>(), ["boot_partition", "config_drive", "kernel_arguments"]);
        assert_eq!(of_forms(&forms(HandOffForm::ConfigDrive)).keys().collect::<Vec<_>>(), ["config_drive"]);
        let empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(all["config_drive"].files[0].sha256, empty, "the digest of {{}}");
        assert_eq!(all["kernel_arguments"], PromisedForm { files: Vec::new(), arguments: true });
        let arguments = Some(KernelArgumentEdit { append: vec!["quiet".into()], delete: Vec::new() });
        let with = of_forms(&Forms { arguments, ..forms(HandOffForm::Auto) });
        assert!(with.values().all(|form| form.arguments), "arguments that go with any form");
    }

    #[test]
    fn network_arguments_are_the_content_of_the_first_boots_file() {
        let files = &of_forms(&forms(HandOffForm::BootPartition))["boot_partition"].files;
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["ignition/config.ign", FIRST_BOOT]);
        assert_eq!(files[1], of_content(FIRST_BOOT, b"set ignition_network_kcmdline=\"ip=dhcp\"\n"));
    }

    #[test]
    fn a_plan_without_a_hand_off_promises_nothing() {
        assert_eq!(of_plan(&AgentPlan { number: 1, attempt: 1, steps: vec![PlanStep::Reboot] }), None);
    }
}
