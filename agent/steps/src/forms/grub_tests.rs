#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

/// The script that `grub-mkconfig` of Debian writes.
const DEBIAN: &str = r#"### BEGIN /etc/grub.d/00_header ###
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
function load_video {
  insmod all_video
}
### END /etc/grub.d/00_header ###
### BEGIN /etc/grub.d/10_linux ###
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1' {
	load_video
	search --no-floppy --fs-uuid --set=root 1
	echo	'Loading Linux 6.12 ...'
	linux	/boot/vmlinuz-6.12 root=UUID=1 ro  quiet $vt_handoff
	echo	'Loading initial ramdisk ...'
	initrd	/boot/initrd.img-6.12
}
submenu 'Advanced options' {
	menuentry 'Debian (recovery mode)' {
		linuxefi	/boot/vmlinuz-6.12 root=UUID=1 ro single
	}
}
### END /etc/grub.d/10_linux ###
### BEGIN /etc/grub.d/20_memtest86+ ###
menuentry 'Memory test' { linux16 /boot/memtest86+.bin
}
### END /etc/grub.d/20_memtest86+ ###
### BEGIN /etc/grub.d/30_os-prober ###
menuentry 'Another' {
	linux /vmlinuz root=/dev/sdb1 quiet
}
### END /etc/grub.d/30_os-prober ###
"#;

fn wanted(append: &[&str], delete: &[&str]) -> KernelArgumentEdit {
    let own = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    KernelArgumentEdit { append: own(append), delete: own(delete) }
}

fn edited(text: &str, append: &[&str], delete: &[&str]) -> Edited {
    edit(text, &wanted(append, delete)).unwrap()
}

fn refused(text: &str) -> String {
    edit(text, &wanted(&["b"], &[])).unwrap_err().to_string()
}

#[test]
fn a_script_of_debian() {
    let done = edited(DEBIAN, &["ip=dhcp"], &["quiet", "single"]);
    let expected =
        DEBIAN.replace("ro  quiet $vt_handoff\n", "ro $vt_handoff ip=dhcp\n").replace("ro single\n", "ro ip=dhcp\n");
    assert_eq!(done.text, expected);
    assert_eq!(done.command_lines, 2);
    assert_eq!(done.variables.into_iter().collect::<Vec<_>>(), ["vt_handoff"]);
    let left = done.left.join("\n");
    assert!(
        left.ends_with("line 31 is not of this system (/etc/grub.d/30_os-prober)") && done.left.len() == 1,
        "{left}"
    );
    assert!(arguments_of_script(DEBIAN).contains(&"root=UUID=1".to_owned()));
    assert!(!reads_entries(DEBIAN) && reads_entries("insmod blscfg\n\tblscfg\n"));
}

#[test]
fn arguments_are_quoted_where_grub_would_read_them_otherwise() {
    let url = "ignition.config.url=https://192.0.2.1:22623/config/worker?token=a&b;c";
    let done = edited("linux /a b\n", &[url, "x=1,2"], &[]);
    assert_eq!(done.text, format!("linux /a b '{url}' x=1,2\n"));
    assert_eq!(edited(&done.text, &[url, "x=1,2"], &[]).text, done.text, "found again in its quotes");
    assert_eq!(edited(&done.text, &[], &[url]).text, "linux /a b x=1,2\n");
    assert_eq!(edited("linux /a \"qui\"et 'q' \\q\n", &[], &["quiet", "q"]).text, "linux /a\n");
}

#[test]
fn commands_are_found_wherever_they_stand() {
    for (text, expected) in [
        ("linux /a", "linux /a b"),
        ("if true; then linux /a c; fi\n", "if true; then linux /a c b; fi\n"),
        ("if true\nthen linux /a # why\nfi\n", "if true\nthen linux /a b # why\nfi\n"),
        ("menuentry x { linux /a\n}\n", "menuentry x { linux /a b\n}\n"),
        ("\tlinux16\t/a\t\r\n", "\tlinux16\t/a b\t\r\n"),
    ] {
        let done = edited(text, &["b"], &[]);
        assert_eq!((done.text.as_str(), done.command_lines), (expected, 1));
    }
    for text in [
        "echo linux /a\n",
        "# linux /a\n",
        "set linux=/a\n",
        "menuentry 'a\nlinux /b' {\n}\n",
        "initrd /linux\n",
        "'linux' /a\n",
        "linux /boot/memtest86+x64.efi\n",
    ] {
        assert_eq!((edited(text, &["b"], &[]).text.as_str(), edited(text, &["b"], &[]).command_lines), (text, 0));
    }
}

#[test]
fn what_cannot_be_understood_is_refused_with_its_line() {
    assert!(refused("a\nlinux /a b \\\n c\n").starts_with("line 2 cannot be understood"));
    assert!(refused("a\n\nlinux /a 'b\n").starts_with("line 3 cannot be understood: a quotation mark"));
    assert!(refused("linux /a \"b").contains("line 1"));
    assert!(refused("linux /a b | cat\n").contains("parts commands"));
    assert!(refused("menuentry x { linux /a b }\n").contains("brace"));
    assert!(refused("linux\n").contains("names no kernel"));
    assert!(refused("a\\").contains("backslash"));
    assert!(refused(&format!("x\nlinux /a {}\n", "c".repeat(2047))).contains("kernel command line of line 2"));
}

/// `BOOT_IMAGE=(hd99,gpt128)/a` counts, as GRUB puts it before the rest.
#[test]
fn what_grub_puts_before_the_arguments_takes_room() {
    let text = |bytes: usize| format!("linux /a {}\n", "c".repeat(bytes));
    let error = edit(&text(2019), &wanted(&["b"], &[])).unwrap_err();
    assert_eq!(error, LoaderError::TooLong { line: 1, bytes: 2048 });
    assert!(edit(&text(2018), &wanted(&["b"], &[])).is_ok());
}

#[test]
fn xen_is_told_and_left() {
    let text = "multiboot2 /xen.gz dom0_mem=1G\nmodule2 /vmlinuz root=1\n";
    let done = edited(text, &["b"], &[]);
    assert_eq!((done.text.as_str(), done.command_lines, done.left.len()), (text, 0, 1));
}

proptest! {
    #[test]
    fn any_script_is_survived(
        text in "((linux|if|then|fi|menuentry|\\{|\\}|quiet|ip=dhcp|a|/k|\\$x|\\$\\{y\\}|'|\"|\\\\|#|;|&|splash)[ \t\n]?){0,30}",
    ) {
        check(text.as_bytes());
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }

    /// Whatever argument a hand-off may have comes back as it was, in a script and in an entry.
    #[test]
    fn any_argument_comes_back(argument in "[!#%&(-\\[\\]^_a-z{|}~]{1,30}") {
        let done = edited("linux /a\n", &[&argument], &[]);
        prop_assert_eq!(arguments_of_script(&done.text), [argument.clone()]);
        prop_assert_eq!(edited(&done.text, &[], &[&argument]).text, "linux /a\n");
    }
}
