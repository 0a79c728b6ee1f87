//! Boot loaders' files and cloud-init's configuration out of an image: what was changed once does not change again,
//! nothing else changes, and volumes hold what they are to hold.

use firesteel_steps::forms::{bls, fat, form_detection, grub, grubenv};

pub(super) fn check(input: &[u8]) {
    bls::check(input);
    grub::check(input);
    grubenv::check(input);
    form_detection::check(input);
    fat::check(input);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let block = |text: &str| format!("{:#<1024}", format!("# GRUB Environment Block\n{text}"));
    let texts = [
        "title A\nversion 1\noptions $ignition_firstboot ignition.platform.id=metal quiet a a\nlinux /vmlinuz\ninitrd /i\n".to_owned(),
        "options a=\"b c\" ${kernelopts}\r\nlinux /a\r\noptions quiet\r\n# options x".to_owned(),
        "linux /a\nefi /b\n".to_owned(),
        "### BEGIN /etc/grub.d/10_linux ###\nmenuentry 'A' --id \"$x\" {\n\tlinux\t/vmlinuz root=1 ro quiet $vt splash # c\n\tinitrd /i\n}\n### END /etc/grub.d/10_linux ###\n".to_owned(),
        "if [ a = b ]; then linuxefi /a 'b c' d\\ e; else linux16 /memtest; fi\nmultiboot2 /xen\n".to_owned(),
        "### BEGIN /etc/grub.d/30_os-prober ###\nlinux /other\n### END x ###\nlinux /own \"${a}\" \\$b\n".to_owned(),
        "linux /a b \\\n c\n".to_owned(),
        block("saved_entry=x\nkernelopts=root=/dev/sda1 ro \nboot_success=0\n"),
        block("kernelopts=a\\\\b\\\nc\n# d\n"),
        "datasource_list: [ NoCloud, ConfigDrive,\n  'None' ] # x\nlabel config-2\nlabel CIDATA\n".to_owned(),
        "datasource_list:\n- Ec2\nignition.platform.id=openstack ignition.platform.id=aws $ignition_firstboot\n".to_owned(),
        "openstack/latest/user_data\nopenstack/latest/meta_data.json\nuser-data\na b.c\n".to_owned(),
    ];
    texts.map(String::into_bytes).into()
}
