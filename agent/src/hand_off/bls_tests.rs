#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

const COREOS: &str = "title Fedora CoreOS 42.20250801.3.0 (ostree:0)\nversion 1\noptions $ignition_firstboot mitigations=auto,nosmt ostree=/ostree/boot.1/fcos/a/0 ignition.platform.id=metal\nlinux /ostree/fcos-a/vmlinuz-6.15\ninitrd /ostree/fcos-a/initramfs-6.15.img\n";

fn wanted(append: &[&str], delete: &[&str]) -> Arguments {
    let own = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    Arguments { append: own(append), delete: own(delete) }
}

fn edited(text: &str, append: &[&str], delete: &[&str]) -> Edited {
    edit(text, &Environment::default(), &wanted(append, delete)).unwrap()
}

#[test]
fn an_entry_of_coreos() {
    let done = edited(COREOS, &["ip=dhcp", "ignition.platform.id=metal"], &["mitigations=auto,nosmt", "quiet"]);
    let expected = COREOS.replace(" mitigations=auto,nosmt", "").replace("id=metal\n", "id=metal ip=dhcp\n");
    assert_eq!(done.text, expected);
    assert_eq!((done.command_lines, done.repeated.len()), (1, 0));
    assert_eq!(done.variables.into_iter().collect::<Vec<_>>(), ["ignition_firstboot"]);
    assert_eq!(arguments_of(COREOS).last(), Some(&"ignition.platform.id=metal"));
}

#[test]
fn what_need_not_change_keeps_every_byte() {
    for text in [
        COREOS.to_owned(),
        COREOS.replace(' ', "\t  "),
        COREOS.replace('\n', "\r\n"),
        "linux /a\noptions  quiet   ip=dhcp \n\n# options ip=other".to_owned(),
    ] {
        assert_eq!(edited(&text, &[], &["nothing"]).text, text);
    }
    let dhcp = "linux /a\noptions  quiet   ip=dhcp \n";
    assert_eq!(edited(dhcp, &["ip=dhcp"], &[]).text, dhcp);
}

#[test]
fn line_ends_and_indents_stay() {
    assert_eq!(edited("linux /a\r\n  options a\r\nx y", &["b"], &[]).text, "linux /a\r\n  options a b\r\nx y");
    assert_eq!(edited("options\nlinux /a", &["b"], &[]).text, "options b\nlinux /a");
    assert_eq!(edited("linux /a\noptions quiet", &[], &["quiet"]).text, "linux /a\noptions ");
}

/// GRUB takes the first line alone, systemd-boot all of them.
#[test]
fn of_two_options_lines_the_first_gets_what_is_missing_on_it() {
    let done = edited("options a\nlinux /a\noptions b quiet\n", &["b"], &["quiet"]);
    assert_eq!(done.text, "options a b\nlinux /a\noptions b\n");
}

#[test]
fn an_entry_without_options_gets_some_but_where_grub_has_its_own() {
    assert_eq!(edited("linux /a", &["b"], &[]).text, "linux /a\noptions b\n");
    assert_eq!(edited("linux /a", &[], &["b"]).text, "linux /a");
    let environment = Environment { kernelopts: None, has_default: true };
    let error = edit("linux /a\n", &environment, &wanted(&["b"], &[])).unwrap_err();
    assert!(error.to_string().contains("default_kernelopts"), "{error}");
}

#[test]
fn what_starts_no_kernel_is_left_and_told() {
    let text = "title Firmware\nefi /EFI/tools/shell.efi\noptions quiet\n";
    let done = edited(text, &["b"], &["quiet"]);
    assert_eq!((done.text.as_str(), done.command_lines, done.left.len()), (text, 0, 1));
}

#[test]
fn what_the_environment_brings_counts_as_there() {
    let environment = Environment { kernelopts: Some(vec!["ip=dhcp", "ro"]), has_default: false };
    let text = "linux /a\noptions $kernelopts ${kernelopts} $tuned_params\n";
    let done = edit(text, &environment, &wanted(&["ip=dhcp", "x"], &["ro"])).unwrap();
    assert_eq!(done.text, text.replace("params\n", "params x\n"));
    assert_eq!(done.variables.into_iter().collect::<Vec<_>>(), ["tuned_params"]);
}

#[test]
fn quotes_hold_words_together_and_must_end() {
    let text = "linux /a\noptions dyndbg=\"file a.c +p\" +p\n";
    assert_eq!(edited(text, &["b"], &["+p"]).text, "linux /a\noptions dyndbg=\"file a.c +p\" b\n");
    let error = edit("x y\noptions a=\"b c\nlinux /a\n", &Environment::default(), &wanted(&["b"], &[])).unwrap_err();
    assert!(matches!(error, LoaderError::Line { line: 2, .. }), "{error}");
}

#[test]
fn a_line_that_the_kernel_would_cut_is_refused() {
    let text = format!("linux /a\noptions {}\n", "a".repeat(2000));
    let error = edit(&text, &Environment::default(), &wanted(&[&"b".repeat(47)], &[])).unwrap_err();
    assert_eq!(error, LoaderError::TooLong { line: 2, bytes: 2048 });
    assert!(edit(&text, &Environment::default(), &wanted(&[&"b".repeat(46)], &[])).is_ok());
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "((linux|options|efi|title|#)[ \t\r]?([a-c$\"= ]|ip=dhcp|quiet){0,6}(\n|\r\n)?){0,8}") {
        check(text.as_bytes());
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }
}
