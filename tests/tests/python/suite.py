"""What users of the Python client of Kubernetes do. Run by main.rs: suite.py FUNCTION."""

import base64
import datetime
import queue
import sys
import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException
from kubernetes.informer import SharedInformer
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

GROUP, VERSION, NAMESPACE, HOSTS = "metal3.io", "v1alpha1", "default", "baremetalhosts"
# Seconds. Only what hangs takes so long.
PATIENCE = 60


def meanwhile():
    """Has the test do with the appliance what it has to, and waits for it."""
    print("ready", flush=True)
    assert sys.stdin.readline() == "done\n"


def error(status, call, *arguments, **options):
    """The body of an answer that is an error of this status."""
    try:
        call(*arguments, **options)
    except ApiException as answer:
        assert answer.status == status, (answer.status, answer.body)
        return answer.body if isinstance(answer.body, str) else answer.body.decode()
    raise AssertionError(f"{status} was expected")


def host(name, **spec):
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "BareMetalHost",
        "metadata": {"name": name, "labels": {"rack": "r1"}},
        "spec": {"online": True, **spec},
    }


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


def typed():
    core = client.CoreV1Api()
    assert client.VersionApi().get_code().major == "1"
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="lab")))
    made = core.create_namespaced_config_map("lab", config_map("c", a="b"))
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo
    secret = client.V1Secret(metadata=client.V1ObjectMeta(generate_name="s-"), string_data={"user": "root"})
    secret = core.create_namespaced_secret("lab", secret)
    assert secret.metadata.name.startswith("s-") and len(secret.metadata.name) == 7
    assert base64.b64decode(secret.data["user"]) == b"root" and secret.string_data is None
    made.data = {"a": "c"}
    changed = core.replace_namespaced_config_map("c", "lab", made)
    assert changed.data == {"a": "c"} and changed.metadata.resource_version != made.metadata.resource_version
    again = core.replace_namespaced_config_map("c", "lab", changed)
    assert again.metadata.resource_version == changed.metadata.resource_version, "nothing changed"
    assert [item.metadata.name for item in core.list_namespaced_config_map("lab").items] == ["c"]
    assert core.list_config_map_for_all_namespaces(field_selector="metadata.name=c").items[0].data == {"a": "c"}
    gone = core.delete_namespaced_config_map("c", "lab")
    assert gone["status"] == "Success" and gone["details"]["name"] == "c"
    error(404, core.read_namespaced_config_map, "c", "lab")
    deleted = core.delete_collection_namespaced_secret("lab")
    assert core.list_namespaced_secret("lab").items == [], deleted
    definitions = client.ApiextensionsV1Api().list_custom_resource_definition().items
    names = [definition.metadata.name for definition in definitions]
    assert f"{HOSTS}.{GROUP}" in names, names


def discovered():
    api = dynamic.DynamicClient(client.ApiClient())
    hosts = api.resources.get(api_version=f"{GROUP}/{VERSION}", kind="BareMetalHost")
    assert hosts.namespaced and "bmh" in hosts.short_names and hosts.subresources["status"]
    made = hosts.create(body=host("h1"), namespace=NAMESPACE)
    assert made.metadata.generation == 1 and made.spec.online is True
    hosts.create(body=host("h2"), namespace=NAMESPACE)
    listed = hosts.get(namespace=NAMESPACE, label_selector="rack in (r1)")
    assert [item.metadata.name for item in listed.items] == ["h1", "h2"]
    stored = hosts.get(name="h1", namespace=NAMESPACE).to_dict()
    stored["spec"]["description"] = "by name"
    replaced = hosts.replace(body=stored, namespace=NAMESPACE)
    assert (replaced.spec.description, replaced.metadata.generation) == ("by name", 2)
    hosts.delete(name="h1", namespace=NAMESPACE)
    error(404, hosts.get, name="h1", namespace=NAMESPACE)
    events = hosts.watch(namespace=NAMESPACE, resource_version=listed.metadata.resourceVersion, timeout=30)
    for event in events:
        if event["type"] == "DELETED":
            assert event["object"].metadata.name == "h1"
            break
    else:
        raise AssertionError("the deletion was not seen")
    custom = client.CustomObjectsApi()
    assert custom.get_namespaced_custom_object(GROUP, VERSION, NAMESPACE, HOSTS, "h2")["spec"]["online"] is True


def patches():
    api = dynamic.DynamicClient(client.ApiClient())
    hosts = api.resources.get(api_version=f"{GROUP}/{VERSION}", kind="BareMetalHost")
    hosts.create(body=host("h1"), namespace=NAMESPACE)

    def patch(body, kind):
        return hosts.patch(body=body, name="h1", namespace=NAMESPACE, content_type=f"application/{kind}")

    merged = patch({"spec": {"description": "a"}}, "merge-patch+json")
    assert merged.spec.description == "a"
    step = [{"op": "test", "path": "/spec/description", "value": "a"}, {"op": "remove", "path": "/spec/description"}]
    assert patch(step, "json-patch+json").spec.description is None
    failed = error(422, patch, step, "json-patch+json")
    assert "the server rejected our request due to an error in our request" in failed, failed
    error(415, patch, {"spec": {"online": True}}, "strategic-merge-patch+json")
    # The typed client of custom kinds takes a merge, or a list of steps.
    custom = client.CustomObjectsApi()
    offline = custom.patch_namespaced_custom_object(GROUP, VERSION, NAMESPACE, HOSTS, "h1", {"spec": {"online": False}})
    assert offline["spec"]["online"] is False
    status = {"status": {"errorMessage": "by hand"}, "spec": {"online": True}}
    status = custom.patch_namespaced_custom_object_status(GROUP, VERSION, NAMESPACE, HOSTS, "h1", status)
    assert (status["status"]["errorMessage"], status["spec"]["online"]) == ("by hand", False)
    core = client.CoreV1Api()
    core.create_namespaced_config_map(NAMESPACE, config_map("c", a="b"))
    # Strategic, which Kubernetes' own kinds alone have: what has a key is merged by it. The owners are there:
    # an object all of whose owners are gone is deleted.
    for name in ("o", "p"):
        uid = core.create_namespaced_config_map(NAMESPACE, config_map(name)).metadata.uid
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}
        body = {"metadata": {"ownerReferences": [owner]}}
        found = core.patch_namespaced_config_map("c", NAMESPACE, body)
    assert sorted(reference.name for reference in found.metadata.owner_references) == ["o", "p"]


def applies():
    api = dynamic.DynamicClient(client.ApiClient())
    hosts = api.resources.get(api_version=f"{GROUP}/{VERSION}", kind="BareMetalHost")

    def apply(manager, force=None, **spec):
        body = host("h1", **spec)
        return hosts.server_side_apply(
            body=body, name="h1", namespace=NAMESPACE, field_manager=manager, force_conflicts=force
        )

    def owners(found):
        return [(entry.manager, entry.operation) for entry in found.metadata.managedFields if not entry.subresource]

    made = apply("gitops", description="a")
    assert owners(made) == [("gitops", "Apply")]
    conflict = error(409, apply, "person", description="b")
    assert 'conflict with \\"gitops\\": .spec.description' in conflict, conflict
    assert apply("person", force=True, description="b").spec.description == "b"
    # What two apply stays until the last one leaves it out.
    assert apply("gitops").spec.description == "b"
    assert apply("person").spec.description is None
    core = client.CoreV1Api()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    found = core.patch_namespaced_config_map(
        "c", NAMESPACE, body, field_manager="gitops", _content_type="application/apply-patch+yaml"
    )
    assert found.data == {"a": "b"} and found.metadata.managed_fields[0].operation == "Apply"


def watches():
    core = client.CoreV1Api()
    listed = core.list_namespaced_config_map(NAMESPACE)
    since = listed.metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, config_map("c", a="1"))
    core.patch_namespaced_config_map("c", NAMESPACE, {"data": {"a": "2"}})
    core.delete_namespaced_config_map("c", NAMESPACE)

    def seen(since, count):
        found, watcher = [], watch.Watch()
        for event in watcher.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=since):
            found.append((event["type"], event["object"].data["a"], event["object"].metadata.resource_version))
            if len(found) == count:
                watcher.stop()
        return found

    all_of_it = seen(since, 3)
    assert [event[:2] for event in all_of_it] == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], all_of_it
    # From any of them on, nothing is missed and nothing told again.
    for index in (0, 1):
        assert seen(all_of_it[index][2], 2 - index) == all_of_it[index + 1 :]
    watcher = watch.Watch()
    ended = list(watcher.stream(core.list_namespaced_config_map, NAMESPACE, timeout_seconds=1))
    assert ended == [], "a watch ends when it was asked to"


def pages():
    core = client.CoreV1Api()
    for number in range(5):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"c{number}", a="b"))
    found, token, first = [], None, None
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, limit=2, _continue=token)
        first = first or page.metadata.resource_version
        assert page.metadata.resource_version == first, "all pages are of one revision"
        found += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        # What comes meanwhile is not part of it.
        core.create_namespaced_config_map(NAMESPACE, config_map(f"c9{len(found)}", a="b"))
        if not token:
            break
        assert page.metadata.remaining_item_count == 5 - len(found)
    assert found == [f"c{number}" for number in range(5)], found


def refused():
    custom = client.CustomObjectsApi()

    def create(body, **options):
        return custom.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, HOSTS, body, **options)

    assert '"reason":"NotFound"' in error(404, client.CoreV1Api().read_namespaced_secret, "no", NAMESPACE)
    invalid = error(422, create, host("h1", online="maybe"))
    assert "spec.online" in invalid and '"reason":"Invalid"' in invalid, invalid
    strict = error(400, create, host("h1", onlin=True), field_validation="Strict")
    assert 'unknown field \\"spec.onlin\\"' in strict, strict
    dry = create(host("h1"), dry_run="All")
    assert dry["metadata"]["name"] == "h1"
    error(404, custom.get_namespaced_custom_object, GROUP, VERSION, NAMESPACE, HOSTS, "h1")
    create(host("h1"))
    assert '"reason":"AlreadyExists"' in error(409, create, host("h1"))
    core = client.CoreV1Api()
    stored = core.create_namespaced_config_map(NAMESPACE, config_map("c", a="1"))
    core.replace_namespaced_config_map("c", NAMESPACE, stored)
    core.patch_namespaced_config_map("c", NAMESPACE, {"data": {"a": "2"}})
    late = error(409, core.replace_namespaced_config_map, "c", NAMESPACE, stored)
    assert "the object has been modified" in late, late
    wrong = {"preconditions": {"uid": "another"}}
    error(409, custom.delete_namespaced_custom_object, GROUP, VERSION, NAMESPACE, HOSTS, "h1", body=wrong)


def events():
    core = client.CoreV1Api()
    custom = client.CustomObjectsApi()
    stored = custom.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, HOSTS, host("h1"))
    about = client.V1ObjectReference(
        api_version=stored["apiVersion"],
        kind=stored["kind"],
        name="h1",
        namespace=NAMESPACE,
        uid=stored["metadata"]["uid"],
    )
    now = datetime.datetime.now(datetime.timezone.utc)
    event = client.CoreV1Event(
        metadata=client.V1ObjectMeta(generate_name="h1."),
        involved_object=about,
        reason="Racked",
        message="by the hands of a person",
        type="Normal",
        count=1,
        first_timestamp=now,
        last_timestamp=now,
        source=client.V1EventSource(component="suite"),
    )
    core.create_namespaced_event(NAMESPACE, event)
    selector = f"involvedObject.name=h1,involvedObject.uid={about.uid},reason=Racked,type=Normal"
    found = core.list_namespaced_event(NAMESPACE, field_selector=selector).items
    assert [(event.reason, event.source.component) for event in found] == [("Racked", "suite")]
    assert core.list_namespaced_event(NAMESPACE, field_selector="involvedObject.name=h2").items == []


def leader():
    log = queue.Queue()
    work = {}

    def candidate(name):
        work[name] = threading.Event()

        def lead():
            log.put(("leads", name))
            work[name].wait()
            # An exception is how a leader of this client gives up.
            raise RuntimeError("enough")

        settings = electionconfig.Config(
            LeaseLock("suite", NAMESPACE, name),
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=lead,
            onstopped_leading=lambda: log.put(("stopped", name)),
        )
        threading.Thread(target=leaderelection.LeaderElection(settings).run, daemon=True).start()

    candidate("a")
    assert log.get(timeout=PATIENCE) == ("leads", "a")
    candidate("b")
    leases = client.CoordinationV1Api()
    first = leases.read_namespaced_lease("suite", NAMESPACE)
    assert first.spec.holder_identity == "a"
    # It renews, and nobody else leads meanwhile.
    watcher = watch.Watch()
    since = first.metadata.resource_version
    for number, event in enumerate(watcher.stream(leases.list_namespaced_lease, NAMESPACE, resource_version=since)):
        assert event["object"].spec.holder_identity == "a"
        if number == 4:
            watcher.stop()
    assert log.empty()
    work["a"].set()
    assert log.get(timeout=PATIENCE) == ("stopped", "a")
    assert log.get(timeout=PATIENCE) == ("leads", "b")
    assert leases.read_namespaced_lease("suite", NAMESPACE).spec.holder_identity == "b"
    # Of two who change it at once, the later one hears of it.
    stale = leases.read_namespaced_lease("suite", NAMESPACE)
    work["b"].set()
    assert log.get(timeout=PATIENCE) == ("stopped", "b")
    fresh = leases.read_namespaced_lease("suite", NAMESPACE)
    fresh.spec.lease_duration_seconds = 9
    leases.replace_namespaced_lease("suite", NAMESPACE, fresh)
    stale.spec.lease_duration_seconds = 8
    error(409, leases.replace_namespaced_lease, "suite", NAMESPACE, stale)


def recovers():
    core = client.CoreV1Api()
    core.create_namespaced_config_map(NAMESPACE, config_map("old", a="b"))
    since = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, config_map("new", a="b"))
    meanwhile()

    def follow(since):
        watcher = watch.Watch()
        for event in watcher.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=since):
            watcher.stop()
            return event

    expired = None
    try:
        follow(since)
    except ApiException as answer:
        expired = answer
    assert expired is not None and expired.status == 410 and expired.reason.startswith("Expired: too old resource"), expired
    listed = core.list_namespaced_config_map(NAMESPACE)
    assert [item.metadata.name for item in listed.items] == ["new", "old"]
    core.create_namespaced_config_map(NAMESPACE, config_map("newer", a="b"))
    event = follow(listed.metadata.resource_version)
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "newer")


def informed():
    core = client.CoreV1Api()
    seen = queue.Queue()

    def await_event(*wanted):
        while True:
            if seen.get(timeout=PATIENCE) == wanted:
                return

    informer = SharedInformer(core.list_namespaced_config_map, namespace=NAMESPACE)
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        informer.add_event_handler(kind, lambda found, kind=kind: seen.put((kind, found.metadata.name)))
    informer.add_event_handler("ERROR", lambda answer: seen.put(("ERROR", getattr(answer, "status", None))))
    informer.start()
    core.create_namespaced_config_map(NAMESPACE, config_map("stays", a="b"))
    core.create_namespaced_config_map(NAMESPACE, config_map("goes", a="b"))
    await_event("ADDED", "stays")
    await_event("ADDED", "goes")
    informer.stop()
    core.delete_namespaced_config_map("goes", NAMESPACE)
    core.create_namespaced_config_map(NAMESPACE, config_map("comes", a="b"))
    meanwhile()
    informer.start()
    await_event("ERROR", 410)
    await_event("DELETED", "goes")
    await_event("ADDED", "comes")
    assert sorted(informer.cache.list_keys()) == [f"{NAMESPACE}/comes", f"{NAMESPACE}/stays"]
    core.delete_namespaced_config_map("stays", NAMESPACE)
    await_event("DELETED", "stays")


if __name__ == "__main__":
    config.load_kube_config()
    globals()[sys.argv[1]]()
