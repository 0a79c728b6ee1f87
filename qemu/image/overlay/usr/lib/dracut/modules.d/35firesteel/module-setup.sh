#!/bin/bash
# What an operating system must add to Ignition's dracut module: where the config lies, the network
# while it is needed, which disk is ours, and who is told when it fails.

depends() { echo ignition; }

install() {
    local unit wanted_by emergency
    inst_multiple cat cp mkdir mount umount id getent useradd groupadd usermod chroot
    inst_hook cmdline 05 "$moddir/disk-rules.sh"
    inst_script "$moddir/copy-config.sh" /usr/sbin/firesteel-copy-config
    # Ignition calls it after writing files; there is nothing to relabel.
    inst_script "$moddir/setfiles.sh" /usr/sbin/setfiles
    # Debian's own, which is there already, knows no boot loader and refuses.
    cp --remove-destination "$moddir/kargs.sh" "$initdir/usr/sbin/ignition-kargs-helper"
    chmod 755 "$initdir/usr/sbin/ignition-kargs-helper"
    inst_simple /etc/systemd/network/95-firesteel.network
    for unit in firesteel-copy-config.service firesteel-network.service; do
        inst_simple "$moddir/$unit" "$systemdsystemunitdir/$unit"
        wanted_by="$systemdsystemunitdir/ignition-complete.target.requires"
        mkdir -p "$initdir$wanted_by"
        ln_r "$systemdsystemunitdir/$unit" "$wanted_by/$unit"
    done

    inst_multiple chmod curl journalctl sed sleep tail wc
    inst_script "$moddir/report-failure.sh" /usr/sbin/firesteel-report-failure
    unit=firesteel-report-failure.service
    inst_simple "$moddir/$unit" "$systemdsystemunitdir/$unit"
    # The first is isolated by Ignition's units, the second started by dracut where a disk does not appear.
    for emergency in emergency.target dracut-emergency.service; do
        wanted_by="$systemdsystemunitdir/$emergency.wants"
        mkdir -p "$initdir$wanted_by"
        ln_r "$systemdsystemunitdir/$unit" "$wanted_by/$unit"
    done
}
