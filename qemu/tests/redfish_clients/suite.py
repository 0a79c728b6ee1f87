"""Two clients of Redfish that others wrote drive the lab's BMC: OpenStack's sushy and the DMTF's own library.

Arguments: the BMC's base URL, user and password. Any surprise is an exception, which is the test's failure.
"""

import http.server
import sys
import threading
import warnings

import redfish
import redfish.rest.v1
import sushy
import sushy.auth
import sushy.exceptions

warnings.filterwarnings("ignore")
IMAGE = bytes(range(256)) * 64


class Images(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/boot.iso" else 404)
        self.send_header("content-length", str(len(IMAGE) if self.path == "/boot.iso" else 0))
        self.end_headers()
        if self.path == "/boot.iso":
            self.wfile.write(IMAGE)

    def log_message(self, *_):
        pass


def images():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Images)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def same(seen, wanted):
    assert seen == wanted, f"{seen!r}, not {wanted!r}"


def refused(kind, act):
    try:
        act()
    except kind:
        return
    raise AssertionError(f"no {kind}")


def by_sushy(base, user, password, origin, auth):
    def connect(password):
        login = auth(username=user, password=password)
        return sushy.Sushy(f"{base}/redfish/v1/", auth=login, verify=False)

    refused(sushy.exceptions.AccessError, lambda: connect(password + "x").get_system_collection())
    service = connect(password)
    systems = service.get_system_collection().get_members()
    same(len(systems), 1)
    system = systems[0]
    same((system.name, system.power_state), ("client-1", sushy.PowerState.OFF))
    same(system.memory_summary.size_gib, 1)
    allowed = system.get_allowed_system_boot_source_values()
    assert {sushy.BootSource.PXE, sushy.BootSource.CD, sushy.BootSource.UEFI_HTTP} <= set(allowed), allowed
    assert sushy.ResetType.FORCE_OFF in system.get_allowed_reset_system_values()
    same(system.ethernet_interfaces.summary, {"52:54:00:77:01:01": sushy.State.ENABLED})

    pxe_once = {"target": sushy.BootSource.PXE, "enabled": sushy.BootSourceOverrideEnabled.ONCE}
    system.set_system_boot_options(**pxe_once)
    system.refresh(force=True)
    same((system.boot.target, system.boot.enabled), (pxe_once["target"], pxe_once["enabled"]))
    same(system.boot.mode, sushy.BootSourceOverrideMode.UEFI)
    system.reset_system(sushy.ResetType.ON)
    system.refresh(force=True)
    same(system.power_state, sushy.PowerState.ON)
    same(system.boot.enabled, sushy.BootSourceOverrideEnabled.DISABLED)
    system.reset_system(sushy.ResetType.FORCE_RESTART)
    system.reset_system(sushy.ResetType.FORCE_OFF)
    system.refresh(force=True)
    same(system.power_state, sushy.PowerState.OFF)
    refused(sushy.exceptions.HTTPError, lambda: system.reset_system(sushy.ResetType.FORCE_RESTART))

    same(system.secure_boot.enabled, False)
    same(system.secure_boot.current_boot, sushy.SecureBootCurrentBoot.DISABLED)
    refused(sushy.exceptions.HTTPError, lambda: system.secure_boot.set_enabled(True))

    manager = system.managers[0]
    for owner in (manager, system):
        drive = owner.virtual_media.get_members()[0]
        assert sushy.VirtualMediaType.CD in drive.media_types, drive.media_types
        same((drive.inserted, drive.image), (False, None))
        refused(sushy.exceptions.HTTPError, lambda: drive.insert_media(f"{origin}/missing.iso"))
        drive.insert_media(f"{origin}/boot.iso")
        drive.refresh(force=True)
        same((drive.inserted, drive.image, drive.image_name), (True, f"{origin}/boot.iso", "boot.iso"))
        drive.eject_media()
        drive.refresh(force=True)
        same(drive.inserted, False)


def by_redfish(base, user, password, origin, auth):
    def connect(password):
        client = redfish.redfish_client(base_url=base, username=user, password=password)
        client.login(auth=auth)
        return client

    kinds = (redfish.rest.v1.InvalidCredentialsError, redfish.rest.v1.SessionCreationError)
    refused(kinds, lambda: connect(password + "x"))
    client = connect(password)

    def get(path):
        answer = client.get(path)
        same(answer.status, 200)
        return answer.dict

    def post(path, body):
        return client.post(path, body=body).status

    path = get(get("/redfish/v1/")["Systems"]["@odata.id"])["Members"][0]["@odata.id"]
    system = get(path)
    same(system["PowerState"], "Off")
    once = {"Boot": {"BootSourceOverrideTarget": "UefiHttp", "BootSourceOverrideEnabled": "Once"}}
    same(client.patch(path, body=once).status, 204)
    same(get(path)["Boot"]["BootSourceOverrideTarget"], "UefiHttp")
    reset = system["Actions"]["#ComputerSystem.Reset"]["target"]
    same(post(reset, {"ResetType": "On"}), 204)
    same(get(path)["PowerState"], "On")
    same(post(reset, {"ResetType": "ForceOff"}), 204)
    same(get(path)["PowerState"], "Off")
    same(post(reset, {"ResetType": "Sideways"}), 400)

    interfaces = get(system["EthernetInterfaces"]["@odata.id"])["Members"]
    same([get(one["@odata.id"])["MACAddress"] for one in interfaces], ["52:54:00:77:01:01"])
    same(get(system["SecureBoot"]["@odata.id"])["SecureBootEnable"], False)

    drive = get(get(system["VirtualMedia"]["@odata.id"])["Members"][0]["@odata.id"])
    act = {name: drive["Actions"][f"#VirtualMedia.{name}"]["target"] for name in ("InsertMedia", "EjectMedia")}
    same(post(act["InsertMedia"], {"Image": f"{origin}/boot.iso"}), 204)
    same(get(drive["@odata.id"])["Inserted"], True)
    # With the drive in it.
    same(post(reset, {"ResetType": "On"}), 204)
    same(post(reset, {"ResetType": "ForceOff"}), 204)
    same(post(act["EjectMedia"], {}), 204)
    same(get(drive["@odata.id"])["Inserted"], False)
    client.logout()


def main():
    base, user, password = sys.argv[1:4]
    origin = images()
    for auth in (sushy.auth.SessionAuth, sushy.auth.BasicAuth):
        by_sushy(base, user, password, origin, auth)
    for auth in (redfish.AuthMethod.SESSION, redfish.AuthMethod.BASIC):
        by_redfish(base, user, password, origin, auth)
    print("driven by sushy and redfish, by session and basic authentication")


main()
