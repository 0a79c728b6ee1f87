#!/bin/bash
# Gives Ignition the config that was put on the boot partition when the disk was written.
set -e
mkdir -p /run/firesteel-boot /usr/lib/ignition
mount -o ro,nodev,nosuid,noexec /dev/disk/firesteel-boot /run/firesteel-boot
if [ -f /run/firesteel-boot/ignition/config.ign ]; then
    cp /run/firesteel-boot/ignition/config.ign /usr/lib/ignition/user.ign
    echo "firesteel: Ignition gets the config from the boot partition" >/dev/kmsg
fi
umount /run/firesteel-boot
