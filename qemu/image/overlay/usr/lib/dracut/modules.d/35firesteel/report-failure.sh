#!/bin/bash
# Tells the appliance that the first boot failed, with the end of the log, so that nobody has to stand before the
# machine's screen to learn why. Where the appliance is, and the host's token for it, lie beside the config:
# firesteel/report.conf and firesteel/ca.crt, on the boot partition or on the config drive.
set -u

# What the appliance takes of a log.
readonly bytes_max=16384
# The appliance may be starting anew, and the network be late: ten minutes.
readonly tries=40 pause_s=15
readonly work=/run/firesteel-report
readonly volumes=(/dev/disk/firesteel-boot /dev/disk/by-label/config-2 /dev/disk/by-label/CONFIG-2)

say() { echo "firesteel: $*" >/dev/kmsg; }

# Copies what is needed from the first volume that has it.
find_report() {
    local volume
    for volume in "${volumes[@]}"; do
        [ -b "$volume" ] || continue
        mount -o ro,nodev,nosuid,noexec "$volume" "$work/volume" 2>/dev/null || continue
        cp "$work/volume/firesteel/report.conf" "$work/volume/firesteel/ca.crt" "$work/" 2>/dev/null
        umount "$work/volume"
        [ -f "$work/report.conf" ] && return 0
    done
    return 1
}

# A setting of report.conf, which is read and not run.
setting() { sed -n "s/^$1=[\"']\{0,1\}\([^\"']*\)[\"']\{0,1\}\$/\1/p" "$work/report.conf" | tail -n 1; }

# What Ignition said and what systemd said of it; whole lines, without tokens.
log_tail() {
    journalctl --boot --no-pager --quiet --output=short-monotonic \
        --unit='ignition-*' --unit=firesteel-copy-config.service --unit=firesteel-network.service |
        sed -e 's/\([?&]token=\)[^&" ]*/\1hidden/g' -e 's/\(Bearer \)[^" ]*/\1hidden/g' |
        tail -c "$bytes_max" >"$work/log"
    if [ "$(wc -c <"$work/log")" -eq "$bytes_max" ]; then sed -i 1d "$work/log"; fi
}

mkdir -p "$work/volume"
chmod 700 "$work"
for ((try = 1; try <= tries; try++)); do
    [ "$try" = 1 ] || sleep "$pause_s"
    find_report || continue
    printf 'Authorization: Bearer %s\n' "$(setting FIRESTEEL_REPORT_TOKEN)" >"$work/header"
    log_tail
    answer=$(curl --silent --show-error --max-time 20 --cacert "$work/ca.crt" --header "@$work/header" \
        --header 'Content-Type: text/plain' --data-binary "@$work/log" --output /dev/null --write-out '%{http_code}' \
        "$(setting FIRESTEEL_REPORT_URL)" 2>"$work/error")
    case $answer in
    2??)
        say "reported that the first boot failed"
        exit 0
        ;;
    4??)
        say "the report that the first boot failed was refused with $answer"
        exit 1
        ;;
    esac
    say "the report that the first boot failed did not arrive: $answer $(tail -n 1 "$work/error")"
done
say "gave up reporting that the first boot failed"
exit 1
