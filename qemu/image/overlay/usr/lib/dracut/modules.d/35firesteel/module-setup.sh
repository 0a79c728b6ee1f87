#!/bin/bash
# What an operating system must add to Ignition's dracut module: where the config lies, the network
# while it is needed, and which disk is ours.

depends() { echo ignition; }

install() {
    local unit wanted_by
    inst_multiple cat cp mkdir mount umount id getent useradd groupadd usermod chroot
    inst_hook cmdline 05 "$moddir/disk-rules.sh"
    inst_script "$moddir/copy-config.sh" /usr/sbin/firesteel-copy-config
    # Ignition calls it after writing files; there is nothing to relabel.
    inst_script "$moddir/setfiles.sh" /usr/sbin/setfiles
    inst_simple /etc/systemd/network/80-firesteel.network
    for unit in firesteel-copy-config.service firesteel-network.service; do
        inst_simple "$moddir/$unit" "$systemdsystemunitdir/$unit"
        wanted_by="$systemdsystemunitdir/ignition-complete.target.requires"
        mkdir -p "$initdir$wanted_by"
        ln_r "$systemdsystemunitdir/$unit" "$wanted_by/$unit"
    done
}
