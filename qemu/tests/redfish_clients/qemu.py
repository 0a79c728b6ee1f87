#!/usr/bin/env python3
"""Stands in for QEMU: it connects to the machine's control socket, obeys, and runs no guest."""

import json
import socket

control = socket.socket(socket.AF_UNIX)
control.connect("qmp.sock")
lines = control.makefile("rw")


def say(what):
    lines.write(json.dumps(what) + "\n")
    lines.flush()


say({"QMP": {"version": {}, "capabilities": []}})
for line in lines:
    asked = json.loads(line)
    say({"return": {}, "id": asked["id"]})
    if asked["execute"] == "system_reset":
        say({"event": "RESET", "timestamp": {}})
    if asked["execute"] in ("quit", "system_powerdown"):
        break
