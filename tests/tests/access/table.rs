//! The table: role by resource by verb by place. Written by hand from what each role is for, and not from the
//! rules in the code. Each cell is asked for over HTTPS, with the verb itself and as a question
//! (SelfSubjectAccessReview), and both have to say the same.

use reqwest::Method;
use serde_json::{Value, json};

use crate::people::{GRANTS, Person, Site, run};

/// Columns are: an operator of `hosts-a`, a tenant of `claims-a`, a program that is a tenant of `claims-a`, a
/// viewer of all, a viewer of `hosts-a`, an agent, a program without a grant.
///
/// `g`et, `l`ist, `w`atch, `c`reate, `u`pdate, `p`atch, `d`elete, delete all (`x`), `a`pply where there is
/// none; of the status `s` get, `S` patch; `t` ask for a token or a certificate. `-` is nothing. A place `*` is
/// all namespaces, `.` a kind without any. A part or a verb that a kind does not have may be allowed, and is not
/// there then.
const TABLE: &str = "
metal3.io/baremetalhosts                        hosts-a   glwcupdxasS  -            -            glws  glws  -  -
metal3.io/baremetalhosts                        hosts-b   -            -            -            glws  -     -  -
metal3.io/baremetalhosts                        claims-a  -            -            -            glws  -     -  -
metal3.io/baremetalhosts                        *         -            -            -            lw    -     -  -
metal3.io/hardwaredata                          hosts-a   glwcupdxasS  -            -            glws  glws  -  -
metal3.io/hardwaredata                          claims-a  -            -            -            glws  -     -  -
metal3.io/hostfirmwaresettings                  hosts-a   glwcupdxasS  -            -            glws  glws  -  -
metal3.io/hostclaims                            hosts-a   glwcupdxasS  -            -            glws  glws  -  -
metal3.io/hostclaims                            claims-a  -            glwcupdxas   glwcupdxas   glws  -     -  -
metal3.io/hostclaims                            claims-b  -            -            -            glws  -     -  -
metal3.io/hostclaims                            *         -            -            -            lw    -     -  -
metal3.io/provisionings                         .         glw          -            -            glws  glw   -  -
firesteel.dev/hostjournals                      hosts-a   glw          -            -            glws  glws  -  -
firesteel.dev/hostjournals                      claims-a  -            -            -            glws  -     -  -
firesteel.dev/receipts                          hosts-a   glw          -            -            glws  glws  -  -
firesteel.dev/receipts                          claims-a  -            -            -            glws  -     -  -
firesteel.dev/discoveredhosts                   .         glw          -            -            glws  -     -  -
firesteel.dev/halts                             .         glwc         -            -            glws  -     -  -
firesteel.dev/accessgrants                      .         -            -            -            glws  -     -  -
firesteel.dev/hostgroups                        hosts-a   glwcupdxa    -            -            glws  glws  -  -
firesteel.dev/hostgroups                        claims-a  -            -            -            glws  -     -  -
firesteel.dev/bootimagestreams                  .         glw          -            -            glws  -     -  -
operator.openshift.io/machineconfigurations     .         glw          -            -            glws  -     -  -
machineconfiguration.openshift.io/machineconfigpools  .   glw          -            -            glws  -     -  -
machineconfiguration.openshift.io/machineconfigs      .   -            -            -            -     -     -  -
machine.openshift.io/machinesets                claims-a  -            glwcupdxasS  glwcupdxasS  glws  -     -  -
machine.openshift.io/machinesets                hosts-a   -            -            -            glws  glws  -  -
cluster.x-k8s.io/machines                       claims-a  -            glwcupdxasS  glwcupdxasS  glws  -     -  -
cluster.x-k8s.io/machines                       claims-b  -            -            -            glws  -     -  -
cluster.x-k8s.io/clusters                       hosts-a   -            -            -            glws  glws  -  -
cluster.x-k8s.io/clusters                       *         -            -            -            lw    -     -  -
/secrets                                        hosts-a   glwcupdxa    -            -            -     -     -  -
/secrets                                        hosts-b   -            -            -            -     -     -  -
/secrets                                        claims-a  -            glwcupdxa    glwcupdxa    -     -     -  -
/secrets                                        claims-b  -            -            -            -     -     -  -
/secrets                                        *         -            -            -            -     -     -  -
/configmaps                                     hosts-a   glwcupdxa    -            -            glws  glws  -  -
/configmaps                                     claims-a  -            glwcupdxa    glwcupdxa    glws  -     -  -
/configmaps                                     claims-b  -            -            -            glws  -     -  -
/configmaps                                     *         -            -            -            lw    -     -  -
/resourcequotas                                 hosts-a   glws         -            -            glws  glws  -  -
/resourcequotas                                 claims-a  -            glws         glws         glws  -     -  -
/resourcequotas                                 claims-b  -            -            -            glws  -     -  -
/events                                         hosts-a   glwcupdxa    -            -            glws  glws  -  -
/events                                         hosts-b   -            -            -            glws  -     -  -
/events                                         claims-a  -            glwcupa      glwcupa      glws  -     -  -
/events                                         claims-b  -            -            -            glws  -     -  -
/events                                         *         -            -            -            lw    -     -  -
events.k8s.io/events                            hosts-a   glwcupdxa    -            -            glws  glws  -  -
events.k8s.io/events                            claims-b  -            -            -            glws  -     -  -
coordination.k8s.io/leases                      hosts-a   glwcupdxa    -            -            glws  glws  -  -
coordination.k8s.io/leases                      claims-a  -            glwcupdxa    glwcupdxa    glws  -     -  -
coordination.k8s.io/leases                      claims-b  -            -            -            glws  -     -  -
/serviceaccounts                                hosts-a   glw          -            -            glws  glws  -  -
/serviceaccounts                                claims-a  -            -            -            glws  -     -  -
/serviceaccounts                                claims-b  -            -            -            glws  -     -  -
/pods                                           hosts-a   glw          -            -            glws  glws  -  -
/pods                                           claims-a  -            -            -            glws  -     -  -
/namespaces                                     .         -            -            -            glws  -     -  -
apiextensions.k8s.io/customresourcedefinitions  .         glw          glw          glw          glws  glw   -  -
authorization.k8s.io/subjectaccessreviews       .         -            -            -            glws  -     -  -
authentication.k8s.io/tokenreviews              .         -            -            -            glws  -     -  -
nobody.example/things                           hosts-a   -            -            -            glws  glws  -  -
";

const VERBS: &str = "glwcupdxasSt";

/// One request of a row: path, method, headers, body, and the verb and part that a refusal names.
struct Ask {
    method: Method,
    path: String,
    media_type: &'static str,
    body: Value,
    verb: &'static str,
    part: &'static str,
}

struct Row {
    group: String,
    resource: String,
    place: String,
    cells: Vec<String>,
}

impl Row {
    fn of(line: &str) -> Self {
        let mut words = line.split_whitespace().map(str::to_owned);
        let resource = words.next().unwrap();
        let (group, resource) = resource.split_once('/').unwrap();
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            place: words.next().unwrap(),
            cells: words.collect(),
        }
    }

    fn namespace(&self) -> &str {
        if matches!(self.place.as_str(), "*" | ".") { "" } else { &self.place }
    }

    fn collection(&self) -> String {
        let version = match self.group.as_str() {
            "metal3.io" | "firesteel.dev" => "v1alpha1",
            "cluster.x-k8s.io" | "machine.openshift.io" => "v1beta1",
            _ => "v1",
        };
        let root = if self.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}/{version}", self.group) };
        match self.namespace() {
            "" => format!("{root}/{}", self.resource),
            namespace => format!("{root}/namespaces/{namespace}/{}", self.resource),
        }
    }

    /// Nothing is stored: what is allowed would change what the next row asks for.
    fn ask(&self, letter: char) -> Option<Ask> {
        let (all, one) = (self.collection(), format!("{}/x", self.collection()));
        let (merge, apply, json_type) =
            ("application/merge-patch+json", "application/apply-patch+yaml", "application/json");
        let empty = json!({});
        let ask = |method, path, media_type, body: &Value, verb, part| {
            Some(Ask { method, path, media_type, body: body.clone(), verb, part })
        };
        let of_one = self.place != "*";
        match letter {
            'l' => ask(Method::GET, all, json_type, &Value::Null, "list", ""),
            'w' => ask(Method::GET, format!("{all}?watch=1&timeoutSeconds=1"), json_type, &Value::Null, "watch", ""),
            'x' => ask(Method::DELETE, format!("{all}?dryRun=All"), json_type, &Value::Null, "deletecollection", ""),
            _ if !of_one => None,
            'g' => ask(Method::GET, one, json_type, &Value::Null, "get", ""),
            'c' => ask(Method::POST, format!("{all}?dryRun=All"), json_type, &empty, "create", ""),
            'u' => ask(Method::PUT, format!("{one}?dryRun=All"), json_type, &empty, "update", ""),
            'p' => ask(Method::PATCH, format!("{one}?dryRun=All"), merge, &empty, "patch", ""),
            'd' => ask(Method::DELETE, format!("{one}?dryRun=All"), json_type, &Value::Null, "delete", ""),
            'a' => {
                let path = format!("{all}/absent?fieldManager=m&dryRun=All");
                ask(Method::PATCH, path, apply, &empty, "patch", "")
            }
            's' => ask(Method::GET, format!("{one}/status"), json_type, &Value::Null, "get", "status"),
            'S' => ask(Method::PATCH, format!("{one}/status?dryRun=All"), merge, &empty, "patch", "status"),
            't' => {
                let part = match self.resource.as_str() {
                    "serviceaccounts" => "token",
                    "accessgrants" => "certificate",
                    _ => return None,
                };
                ask(Method::POST, format!("{one}/{part}"), json_type, &empty, "create", part)
            }
            _ => None,
        }
    }
}

/// Asks for one cell's verb, and says whether it is allowed.
async fn is_allowed(person: &Person, row: &Row, ask: &Ask) -> bool {
    let response = person.ask_as(ask.method.clone(), &ask.path, &[("content-type", ask.media_type)], &ask.body).await;
    let code = response.status().as_u16();
    assert!(code != 401 && code != 429 && code < 500, "{} {}: {code}", ask.method, ask.path);
    if code != 403 {
        return true;
    }
    let status: Value = response.json().await.unwrap();
    let message = status["message"].as_str().unwrap();
    assert!(message.contains(&format!("cannot {} resource", ask.verb)), "{} {}: {message}", ask.method, ask.path);
    assert!(message.contains(&row.resource) && status["reason"] == "Forbidden", "{message}");
    false
}

/// The same as a question.
async fn says_allowed(person: &Person, row: &Row, ask: &Ask) -> bool {
    let attributes = json!({
        "verb": ask.verb, "group": row.group, "resource": row.resource, "subresource": ask.part,
        "namespace": row.namespace(),
    });
    let review = json!({ "spec": { "resourceAttributes": attributes } });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer: Value = person.ask(Method::POST, path, &review).await.json().await.unwrap();
    answer["status"]["allowed"].as_bool().unwrap()
}

async fn people(site: &Site) -> Vec<Person> {
    let robot = site.program("claims-a", "robot").await;
    let account = json!({ "kind": "ServiceAccount", "namespace": "claims-a", "name": "robot" });
    site.grant("robot", account, "tenant", "claims-a").await;
    vec![
        site.person("ann", "operator", Some("hosts-a")),
        site.person("tim", "tenant", Some("claims-a")),
        robot,
        site.person("vic", "viewer", None),
        site.person("eve", "viewer", Some("hosts-a")),
        site.person("box", "agent", None),
        site.program("claims-a", "stranger").await,
    ]
}

#[test]
fn every_role_may_what_the_table_says_and_no_more() {
    run(async {
        let site = Site::new().await;
        let people = people(&site).await;
        let mut wrong = Vec::new();
        for row in TABLE.lines().filter(|line| !line.is_empty()).map(Row::of) {
            assert_eq!(row.cells.len(), people.len(), "{}", row.resource);
            for (number, (person, cell)) in people.iter().zip(&row.cells).enumerate() {
                for letter in VERBS.chars() {
                    let Some(ask) = row.ask(letter) else { continue };
                    let expected = cell.contains(letter);
                    // An apply is allowed where both of its verbs are, and no verb of its own.
                    let also_said = letter == 'a' || says_allowed(person, &row, &ask).await == expected;
                    if is_allowed(person, &row, &ask).await != expected || !also_said {
                        let place = format!("{}/{} in {}", row.group, row.resource, row.place);
                        wrong.push(format!("person {number}, {place}: {letter} should be {expected}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// A question in another form is the same question.
#[test]
fn a_tenant_sees_no_host_in_whatever_form_he_asks() {
    run(async {
        let site = Site::new().await;
        let tim = site.person("tim", "tenant", Some("claims-a"));
        let hosts = "/apis/metal3.io/v1alpha1/namespaces/claims-a/baremetalhosts";
        let all = "/apis/metal3.io/v1alpha1/baremetalhosts";
        let paths = [
            format!("{hosts}?fieldSelector=metadata.name%3Dx"),
            format!("{hosts}?labelSelector=a%3Db"),
            format!("{hosts}?limit=1&resourceVersion=0"),
            format!("{all}?fieldSelector=metadata.namespace%3Dclaims-a"),
            format!("{all}?watch=1&fieldSelector=metadata.namespace%3Dclaims-a,metadata.name%3Dx"),
            format!(
                "{hosts}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
            ),
            format!("{hosts}/x?watch=1"),
            "/api/v1/events?fieldSelector=involvedObject.kind%3DBareMetalHost".to_owned(),
            "/api/v1/namespaces/hosts-a/events?fieldSelector=involvedObject.name%3Dx".to_owned(),
            "/api/v1/namespaces/hosts-a/secrets?fieldSelector=metadata.name%3Dx".to_owned(),
            "/api/v1/secrets?labelSelector=a".to_owned(),
            "/api/v1/namespaces/hosts-a".to_owned(),
            "/api/v1/namespaces/hosts-a/pods/x/log".to_owned(),
        ];
        for path in &paths {
            for accept in [
                "application/json",
                "application/yaml",
                "application/json;as=Table;v=v1;g=meta.k8s.io",
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            ] {
                let response = tim.ask_as(Method::GET, path, &[("accept", accept)], &Value::Null).await;
                assert_eq!(response.status().as_u16(), 403, "{path} as {accept}");
            }
        }
        assert_eq!(tim.ask(Method::HEAD, all, &Value::Null).await.status().as_u16(), 403);
        assert_eq!(tim.get("/api/v1/namespaces/claims-a").await, 200);
        assert_eq!(tim.get("/api/v1/namespaces/claims-a/secrets/x").await, 200);
    });
}

/// Nobody makes himself more than he is.
#[test]
fn no_role_but_the_admin_gives_rights_or_credentials() {
    run(async {
        let site = Site::new().await;
        let boss = site.person("boss", "admin", None);
        let grant = json!({
            "apiVersion": "firesteel.dev/v1alpha1", "kind": "AccessGrant", "metadata": { "name": "mine" },
            "spec": { "subject": { "kind": "User", "name": "ann" }, "role": "admin" },
        });
        let token = "/api/v1/namespaces/hosts-a/serviceaccounts/x/token";
        let certificate = format!("{GRANTS}/boss-admin/certificate");
        let all = people(&site).await;
        for person in &all {
            for (path, body) in [(GRANTS, &grant), (token, &json!({})), (&certificate, &json!({}))] {
                assert_eq!(person.ask(Method::POST, path, body).await.status().as_u16(), 403, "{path}");
            }
        }
        assert_eq!(boss.ask(Method::POST, token, &json!({})).await.status().as_u16(), 201);
        assert_eq!(boss.ask(Method::POST, &certificate, &json!({})).await.status().as_u16(), 422, "without a request");
        let made = boss.ask(Method::POST, &format!("{GRANTS}?dryRun=All"), &grant).await;
        assert_eq!(made.status().as_u16(), 201);
        // To ask as somebody else is a right too, and then it is his rights that count.
        let as_tim = [("impersonate-user", "tim")];
        let secrets = |namespace: &str| format!("/api/v1/namespaces/{namespace}/secrets");
        for (person, namespace, code) in [(&boss, "claims-a", 200), (&boss, "hosts-a", 403), (&all[0], "hosts-a", 403)]
        {
            let response = person.ask_as(Method::GET, &secrets(namespace), &as_tim, &Value::Null).await;
            assert_eq!(response.status().as_u16(), code, "{namespace}");
        }
    });
}
