//! What holds for every message, not only for the pinned ones.

#![allow(clippy::unwrap_used, reason = "tests")]

use firesteel_wire::erasure::ErasurePolicy;
use firesteel_wire::hand_off::{BootPartition, Forms, HandOffForm, HandOffVolume, KernelArgumentEdit};
use firesteel_wire::{
    AgentInstruction, AgentPlan, AgentReport, DiskIdentity, HandOffFile, Hello, HelloReply, PlanStep, Program,
    PublicKey, ReportReply, Seed, SmbiosIdentity, signing_input,
};
use proptest::prelude::*;

fn disk() -> impl Strategy<Value = DiskIdentity> {
    (".{0,20}", ".{0,20}", ".{0,20}", any::<u64>(), ".{0,20}")
        .prop_map(|(wwn, serial, model, size_bytes, by_path)| DiskIdentity { wwn, serial, model, size_bytes, by_path })
}

fn forms() -> impl Strategy<Value = Forms> {
    let form = prop::sample::select(vec![
        HandOffForm::Auto,
        HandOffForm::BootPartition,
        HandOffForm::KernelArguments,
        HandOffForm::NoCloud,
    ]);
    let words = || proptest::collection::vec(".{0,20}", 0..3);
    (form, words(), words(), any::<u32>(), ".{0,20}").prop_map(|(form, append, delete, volume_id, path)| {
        let files = vec![HandOffFile { path, mode: 0o600, content_base64: "e30=".into() }];
        let arguments = Some(KernelArgumentEdit { append: append.clone(), delete });
        Forms {
            form,
            boot_partition: Some(BootPartition { files: files.clone(), network: append }),
            kernel_arguments: arguments.clone(),
            config_drive: Some(HandOffVolume { volume_id, files }),
            no_cloud: None,
            arguments,
        }
    })
}

fn step() -> impl Strategy<Value = PlanStep> {
    prop_oneof![
        Just(PlanStep::Inspect),
        (disk(), proptest::collection::vec(".{0,20}", 0..3), any::<bool>()).prop_map(
            |(disk, own_names, override_guards)| PlanStep::ClearMetadata {
                disk,
                own_names,
                override_guards,
                was_vacant: !override_guards,
                is_named: false,
            }
        ),
        (disk(), proptest::collection::vec(".{0,20}", 0..3), any::<bool>()).prop_map(
            |(disk, own_names, override_guards)| PlanStep::EraseDisk {
                disk,
                policy: ErasurePolicy::Quick,
                own_names,
                override_guards,
                was_vacant: !override_guards,
                is_named: false,
            }
        ),
        (disk(), ".{0,20}", any::<u32>(), "[A-Za-z0-9+/=]{0,40}").prop_map(|(disk, path, mode, content_base64)| {
            PlanStep::HandOff { disk, files: vec![HandOffFile { path, mode, content_base64 }], forms: None }
        }),
        (disk(), forms()).prop_map(|(disk, forms)| PlanStep::HandOff {
            disk,
            files: Vec::new(),
            forms: Some(Box::new(forms))
        }),
        (disk(), ".{0,20}").prop_map(|(disk, label)| PlanStep::SetBootEntry { disk, label }),
        Just(PlanStep::Reboot),
        Just(PlanStep::PowerOff),
    ]
}

proptest! {
    #[test]
    fn plans_come_back_as_they_went(number: u32, attempt: u64, steps in proptest::collection::vec(step(), 0..6)) {
        let verdict = AgentInstruction::Plan { plan: AgentPlan { number, attempt, steps } };
        let bytes = serde_json::to_vec(&verdict).unwrap();
        prop_assert_eq!(serde_json::from_slice::<AgentInstruction>(&bytes).unwrap(), verdict);
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _hello = serde_json::from_slice::<Hello>(&bytes);
        let _reply = serde_json::from_slice::<HelloReply>(&bytes);
        let _report = serde_json::from_slice::<AgentReport>(&bytes);
        let _reply = serde_json::from_slice::<ReportReply>(&bytes);
    }

    #[test]
    fn keys_are_64_hexadecimal_digits_and_nothing_else(key: [u8; 32], text in "[0-9a-fg]{0,70}") {
        let json = serde_json::to_string(&PublicKey(key)).unwrap();
        prop_assert_eq!(serde_json::from_str::<PublicKey>(&json).unwrap(), PublicKey(key));
        let is_key = text.len() == 64 && !text.contains('g');
        prop_assert_eq!(serde_json::from_str::<PublicKey>(&format!("{text:?}")).is_ok(), is_key);
    }

    /// A signature for one request is none for another: paths have no line break, so the input
    /// falls apart in one way only.
    #[test]
    fn requests_are_signed_unambiguously(
        one in "/[a-z/0-9]{0,12}", other in "/[a-z/0-9]{0,12}", a in "[a-z\n]{0,6}", b in "[a-z\n]{0,6}",
    ) {
        let same = one == other && a == b;
        prop_assert_eq!(signing_input(&one, a.as_bytes()) == signing_input(&other, b.as_bytes()), same);
    }

    /// Secrets never come out of `Debug`, which is what reaches logs.
    #[test]
    fn secrets_do_not_show(secret in "s3cr3t[a-z0-9]{12}") {
        let seed = Seed {
            token: secret.clone(), appliance: String::new(), pin_sha256: String::new(), boot_mac: String::new(), network: None,
        };
        let hello = Hello {
            token: secret.clone(), key: PublicKey([0; 32]), identity: SmbiosIdentity::default(),
            agent_version: String::new(), kernel_version: String::new(), uptime_ms: 0, boot_id: String::new(),
            network: None, program: Program::default(),
        };
        let file = HandOffFile { path: String::new(), mode: 0, content_base64: secret.clone() };
        let argument = format!("ignition.config.url=https://192.0.2.1/config/worker?token={secret}");
        let forms = Forms {
            config_drive: Some(HandOffVolume { volume_id: 1, files: vec![file.clone()] }),
            kernel_arguments: Some(KernelArgumentEdit { append: vec![argument.clone()], delete: vec![argument] }),
            ..Forms::default()
        };
        let step =
            PlanStep::HandOff { disk: DiskIdentity::default(), files: vec![file], forms: Some(Box::new(forms)) };
        let shown = format!("{seed:?}{hello:?}{step:?}");
        prop_assert!(!shown.contains(&secret), "a secret shows");
    }
}
