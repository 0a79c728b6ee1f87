#!/bin/bash
# Runs inside the new root filesystem, after the overlay was laid over it.
set -eu
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
release=$(ls /lib/modules)

printf '/dev/disk/firesteel-root / ext4 defaults 0 0\n/dev/disk/firesteel-boot /boot auto nodev,nosuid,noexec 0 0\n' >/etc/fstab
# A lab's machine: its console is for looking around.
echo root:firesteel | chpasswd
printf 'Firesteel lab image, \\n on \\l (root / firesteel)\n\n' >/etc/issue
: >/etc/resolv.conf

enable() { systemctl --quiet enable "$@"; }
enable systemd-networkd.service systemd-networkd-wait-online.service serial-getty@ttyS0.service
enable firesteel-firstboot-done.service firesteel-report.service firesteel-banner.service
if [ -e /etc/systemd/system/firesteel-cloud.service ]; then enable firesteel-cloud.service; fi
# Nothing that wakes up by itself, waits for a person or mends what is new.
systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer getty@tty1.service systemd-firstboot.service systemd-pstore.service \
    systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-rfkill.socket \
    systemd-repart.service ldconfig.service systemd-hwdb-update.service \
    systemd-network-generator.service sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount \
    dev-mqueue.mount systemd-binfmt.service proc-sys-fs-binfmt_misc.automount

# Names and quirks of hardware that no virtual machine has: 13 MB, twice, and looked into for each device.
rm -rf /usr/lib/udev/hwdb.bin /usr/lib/udev/hwdb.d

dracut --quiet --force "/boot/initrd.img" "$release"
mv "/boot/vmlinuz-$release" /boot/vmlinuz
rm -rf /boot/System.map-* /boot/config-* /boot/initrd.img-* /initrd.img* /vmlinuz*

# Only the initrd runs Ignition, and only once.
rm -f /usr/lib/dracut/modules.d/30ignition/ignition /usr/bin/ignition-validate
rm -rf /usr/share/{doc,man,info,locale,bash-completion,zsh,lintian,bug,i18n/locales} \
    /usr/lib/*/gconv /var/cache/* /var/lib/apt/lists/* /var/log/* /tmp/* /run/*
# Absent, so that each instance gets its own at its first boot; and no update is pending.
rm -f /etc/machine-id /var/lib/dbus/machine-id /etc/hostname /var/lib/systemd/random-seed
touch /etc/.updated /var/.updated
