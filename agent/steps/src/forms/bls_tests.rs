#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

const COREOS: &str = "title Fedora CoreOS 42.20250801.3.0 (ostree:0)\nversion 1\noptions $ignition_firstboot mitigations=auto,nosmt ostree=/ostree/boot.1/fcos/a/0 ignition.platform.id=metal\nlinux /ostree/fcos-a/vmlinuz-6.15\ninitrd /ostree/fcos-a/initramfs-6.15.img\n";

fn wanted(append: &[&str], delete: &[&str]) -> KernelArgumentEdit {
    let own = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    KernelArgumentEdit { append: own(append), delete: own(delete) }
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
}

/// GRUB ends an entry at a line without a value, and what stands behind would be lost.
#[test]
fn with_its_last_word_a_line_goes() {
    for (text, expected) in [
        ("linux /a\noptions quiet", "linux /a\n"),
        ("options quiet\r\nlinux /a\r\ninitrd /b\r\n", "linux /a\r\ninitrd /b\r\n"),
        ("options quiet\nlinux /a\noptions a quiet\n", "linux /a\noptions a\n"),
        ("options a\noptions quiet\nlinux /a\n", "options a\nlinux /a\n"),
    ] {
        let done = edited(text, &[], &["quiet"]);
        assert_eq!((done.text.as_str(), done.command_lines), (expected, 1));
        assert_eq!(edited(expected, &[], &["quiet"]).text, expected, "a second time");
    }
    let environment = Environment { has_default: true, ..Environment::default() };
    let error = edit("options quiet\nlinux /a\n", &environment, &wanted(&[], &["quiet"])).unwrap_err();
    assert!(error.to_string().contains("default_kernelopts"), "GRUB would have others instead: {error}");
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
    let behind = "title x\n\tlinux /a\r\n\ninitrd /b\n";
    assert_eq!(edited(behind, &["b"], &[]).text, "title x\n\tlinux /a\r\noptions b\r\n\ninitrd /b\n");
    let environment = Environment { has_default: true, ..Environment::default() };
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
    let environment = Environment { kernelopts: Some(vec!["ip=dhcp", "ro"]), ..Environment::default() };
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
    let environment = Environment { kernelopts: Some(vec!["ro", "root=/dev/vda"]), ..Environment::default() };
    // The most bytes of options, with what comes before them: `BOOT_IMAGE=(hd99,gpt128)/a `, or `initrd=/b initrd=/c/… `.
    let ramdisks = format!("linux /a\ninitrd /b\ninitrd /c/{}\n", "d".repeat(40));
    for (entry, most) in [("linux /a\n", 2047 - 27), (ramdisks.as_str(), 2047 - 61)] {
        let line = entry.lines().count() + 1;
        for (words, most) in [("", most), ("$kernelopts ", most - 5)] {
            let text = format!("{entry}options {words}{}\n", "a".repeat(most - words.len() - 47));
            let error = edit(&text, &environment, &wanted(&[&"b".repeat(47)], &[])).unwrap_err();
            assert_eq!(error, LoaderError::TooLong { line, bytes: 2048 });
            assert!(edit(&text, &environment, &wanted(&[&"b".repeat(46)], &[])).is_ok());
        }
        // A line that is new.
        assert!(edit(entry, &environment, &wanted(&[&"b".repeat(most)], &[])).is_ok());
        let error = edit(entry, &environment, &wanted(&[&"b".repeat(most + 1)], &[])).unwrap_err();
        assert_eq!(error, LoaderError::TooLong { line: 2, bytes: 2048 });
    }
}

/// An entry's words go into GRUB's script as they are; systemd-boot takes them as they are.
#[test]
fn what_grub_would_end_the_line_at_is_refused_where_there_is_grub() {
    let grub = Environment { has_grub: true, ..Environment::default() };
    let url = "ignition.config.url=https://a/b?c=d&token=s3cr3t";
    for text in ["linux /a\noptions a\n", "linux /a\n"] {
        let error = edit(text, &grub, &wanted(&["x", url], &[])).unwrap_err();
        let told = error.to_string();
        assert!(told.contains("the argument ignition.config.url has") && !told.contains("s3cr3t"), "{told}");
        assert!(arguments_of(&edited(text, &["x", url], &[]).text).contains(&url));
    }
    let there = format!("linux /a\noptions {url}\n");
    assert_eq!(edit(&there, &grub, &wanted(&[url], &[])).unwrap().text, there, "nothing is added");
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
