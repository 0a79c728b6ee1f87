//! Values of Kubernetes' own kinds that its server refuses and that a client would trip over.

use serde_json::json;

use crate::toy::{Server, run};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const APPLY: &str = "application/apply-patch+yaml";

/// One Lease that a client in Go cannot read keeps it from reading the whole list.
#[test]
fn times_of_a_lease_are_as_go_reads_them() {
    run(async {
        let server = Server::new().await;
        let lease = |field: &str, time: &str| json!({ "metadata": { "name": "leader" }, "spec": { field: time } });
        for field in ["acquireTime", "renewTime"] {
            for time in ["2026-09-21T14:13:20Z", "2026-09-21T14:13:20.001Z", "2026-09-21T14:13:20.000000001Z"] {
                let refused = server.post(LEASES, &lease(field, time)).await;
                let found = refused.json()["details"]["causes"][0]["field"].clone();
                assert_eq!((refused.code, found), (422, json!(format!("spec.{field}"))), "{}", refused.text);
                assert!(refused.text.contains("six digits"), "{}", refused.text);
            }
        }
        assert_eq!(server.post(LEASES, &lease("renewTime", "2026-09-21T14:13:20.000000+02:00")).await.code, 201);
        let patch = json!({ "spec": { "renewTime": "2026-09-21T14:13:20Z" } });
        assert_eq!(server.merge(&format!("{LEASES}/leader"), &patch).await.code, 422);
    });
}

/// The names become the names of files, where `a/../../b` or two of one name would be another file.
#[test]
fn names_of_values_are_as_narrow_as_kubernetes_has_them() {
    run(async {
        let server = Server::new().await;
        let metadata = json!({ "name": "a" });
        for (path, field) in [(MAPS, "data"), (MAPS, "binaryData"), (SECRETS, "data"), (SECRETS, "stringData")] {
            for key in ["a/b", "..", "..a", "", "a b", &"k".repeat(254)] {
                let body = json!({ "metadata": metadata, field: { key: "YQ==" } });
                let refused = server.post(path, &body).await;
                assert_eq!(refused.code, 422, "{field} {key:?}: {}", refused.text);
                // What is given as text is stored as data, and refused there.
                let at = if field == "stringData" { "data" } else { field };
                let causes = refused.json()["details"]["causes"].clone();
                assert_eq!(causes[0]["field"], json!(format!("{at}[{key}]")), "{}", refused.text);
            }
        }
        let twice = json!({ "metadata": metadata, "data": { "a": "1" }, "binaryData": { "a": "YQ==" } });
        let refused = server.post(MAPS, &twice).await;
        assert!(
            refused.code == 422 && refused.text.contains("duplicate of key present in binaryData"),
            "{}",
            refused.text
        );
        for path in [MAPS, SECRETS] {
            let made = server.post(path, &json!({ "metadata": metadata, "data": { "A.b-c_9": "YQ==" } })).await;
            assert_eq!(made.code, 201, "{}", made.text);
            let name = format!("{path}/a");
            assert_eq!(server.merge(&name, &json!({ "data": { "x/y": "YQ==" } })).await.code, 422);
            let applied = json!({
                "apiVersion": "v1", "kind": if path == MAPS { "ConfigMap" } else { "Secret" }, "metadata": metadata,
                "data": { "x/y": "YQ==" },
            });
            let by = [("content-type", APPLY)];
            let reply = server.send("PATCH", &format!("{name}?fieldManager=me"), &by, &applied.to_string()).await;
            assert_eq!(reply.code, 422, "{}", reply.text);
        }
    });
}
