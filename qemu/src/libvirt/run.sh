# shellcheck shell=sh
# libvirtd from packages that are only unpacked, as process 1 of a namespace of its own: machines that it starts end with
# it. Nothing of the system is changed: what it reads is laid over /usr, /etc and /var in this mount namespace alone, and
# what it writes lies in the run's folder.
# $1: the run's folder for libvirt, $2: the folder of what was unpacked: libvirt, and virt-install, QEMU and firmware
# where the system has none.
set -eu
folder=$1 tools=$2

mkdir -p "$folder/etc" "$folder/lib" "$folder/cache" "$folder/log" "$folder/s" "$folder/seed/etc/libvirt"
for kind in lib cache log; do mkdir -p "$folder/seed/var/$kind/libvirt"; done
# Its driver for QEMU asks for this user before it reads that it is not to be used.
(cat /etc/passwd; echo 'libvirt-qemu:x:64055:64055:::') >"$folder/seed/etc/passwd"
(cat /etc/group; echo 'libvirt-qemu:x:64055:') >"$folder/seed/etc/group"

layers='' variable='' libraries=''
for name in libvirt virt-install qemu firmware; do
    [ -d "$tools/$name/usr" ] || continue
    layers=$layers$tools/$name/usr:
    # Those below /usr are where the loader looks anyway, once they are laid over it; it asks its cache first.
    libraries=$libraries$tools/$name/usr/lib/x86_64-linux-gnu:$tools/$name/lib/x86_64-linux-gnu:
    # What is below /usr may be a link to there (usb.ids).
    [ ! -d "$tools/$name/var" ] || variable=$variable:$tools/$name/var
done
mount -t overlay -o "lowerdir=$layers/usr" overlay /usr
mount -t overlay -o "lowerdir=$folder/seed/etc:/etc" overlay /etc
mount -t overlay -o "lowerdir=$folder/seed/var$variable:/var" overlay /var
mount --bind "$folder/etc" /etc/libvirt
for kind in lib cache log; do mount --bind "$folder/$kind" "/var/$kind/libvirt"; done
mount -t tmpfs tmpfs /run
# Of this network namespace.
mount -t sysfs sysfs /sys

export LD_LIBRARY_PATH="$libraries"
libvirtd --config "$folder/libvirtd.conf" &
# The shell takes care of the processes that libvirt leaves to it.
wait $!
