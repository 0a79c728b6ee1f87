# ironic-python-agent's inventory of this machine: for each line on standard input one line of JSON.
import json
import sys
import time

from oslo_config import cfg
from ironic_python_agent import config  # noqa: F401, it registers the options
from ironic_python_agent import hardware

cfg.CONF([], project="ironic-python-agent", default_config_files=[])
# It would wait for disks that come late.
hardware.GenericHardwareManager.wait_for_disks = lambda self: None
manager = hardware.GenericHardwareManager()

for _ in sys.stdin:
    began = time.perf_counter()
    error, found = "", None
    try:
        found = manager.list_hardware_info()
    except Exception as problem:
        error = "%s: %s" % (type(problem).__name__, str(problem)[:200])
    ms = 1000 * (time.perf_counter() - began)
    said = json.dumps(found, default=lambda one: one.serialize() if hasattr(one, "serialize") else str(one))
    print(json.dumps({"ms": ms, "bytes": len(said), "error": error}), flush=True)
