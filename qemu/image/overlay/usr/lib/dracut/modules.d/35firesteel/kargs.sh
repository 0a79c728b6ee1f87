#!/bin/bash
# Ignition asks for kernel arguments. Nothing in this initrd can set them; who wrote the disk can, before its first
# boot. So they are looked for, and what is not as it should be is an error.
set -u
arguments=" $(cat /proc/cmdline) "
wrong=()
while [ $# -ge 2 ]; do
    case "$1 $arguments" in
    "--should-exist "*" $2 "*) ;;
    "--should-exist "*) wrong+=("$2 is missing") ;;
    "--should-not-exist "*" $2 "*) wrong+=("$2 is there") ;;
    esac
    shift 2
done
[ ${#wrong[@]} = 0 ] && exit 0
echo "firesteel: the kernel's arguments are not as the config wants them: ${wrong[*]}" >&2
exit 1
