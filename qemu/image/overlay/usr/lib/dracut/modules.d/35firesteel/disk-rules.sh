#!/bin/sh
# The partitions `root` and `boot` of the disk that the boot loader came from, whose GPT has the
# identifier in firesteel.disk=, become /dev/disk/firesteel-root and -boot. Another disk may carry a copy
# with the same labels and UUIDs: only the identifier of the partition table, which is new for each
# installation, tells them apart. Without the argument any disk will do.
#
# The rules are written before udev starts, and stay in /run for the real root's udev.
disk=
for argument in $(cat /proc/cmdline); do
    case $argument in firesteel.disk=*) disk=${argument#*=} ;; esac
done
of_disk=
[ -z "$disk" ] || of_disk="ENV{ID_PART_TABLE_UUID}==\"$(printf %s "$disk" | tr 'A-F' 'a-f')\", "
mkdir -p /run/udev/rules.d
for name in root boot; do
    printf 'SUBSYSTEM=="block", ENV{DEVTYPE}=="partition", %sENV{ID_PART_ENTRY_NAME}=="%s", SYMLINK+="disk/firesteel-%s"\n' \
        "$of_disk" "$name" "$name"
done >/run/udev/rules.d/61-firesteel-disk.rules
