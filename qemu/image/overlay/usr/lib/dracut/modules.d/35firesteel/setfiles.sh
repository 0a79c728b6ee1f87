#!/bin/sh
# Stands in for SELinux's relabelling, which Debian's Ignition asks for after it wrote files.
cat >/dev/null 2>&1
exit 0
