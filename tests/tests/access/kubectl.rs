//! The same with the real kubectl.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::json;

use crate::people::{Person, Site, kubectl, run, succeeded};

#[test]
fn kubectl_tells_who_one_is_and_what_one_may() {
    run(async {
        let site = Site::new().await;
        let (ann, vic) = (site.let_in("ann", "operator", Some("hosts-a")), site.let_in("vic", "viewer", None));
        let ask = |file: &std::path::Path, arguments: &[&str]| {
            kubectl(&site, file).map(|mut command| command.args(arguments).output().unwrap())
        };
        let Some(who) = ask(&ann, &["auth", "whoami"]) else { return };
        let who = succeeded(&who);
        assert!(who.lines().any(|line| line.split_whitespace().eq(["Username", "ann"])), "{who}");
        let may = |file: &std::path::Path, arguments: &[&str]| {
            let output = ask(file, &[&["auth", "can-i"], arguments].concat()).unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            let word = said.lines().last().unwrap_or_default().split(" - ").next().unwrap_or_default().to_owned();
            assert_eq!(output.status.success(), word == "yes", "{said}");
            word
        };
        // Without a namespace it is that of the kubeconfig.
        assert_eq!(may(&ann, &["create", "bmh"]), "yes");
        assert_eq!(may(&ann, &["create", "bmh", "-n", "hosts-b"]), "no");
        assert_eq!(may(&ann, &["list", "bmh", "-A"]), "no");
        assert_eq!(may(&ann, &["create", "sa", "--subresource=token"]), "no");
        assert_eq!(may(&vic, &["list", "bmh", "-A"]), "yes");
        assert_eq!(may(&vic, &["get", "secrets", "-A"]), "no");
        assert_eq!(may(&vic, &["get", "/readyz"]), "yes");
        let rules = succeeded(&ask(&ann, &["auth", "can-i", "--list"]).unwrap());
        let line = |start: &str| rules.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
        assert!(line("*.metal3.io").contains("[*]") && line("secrets").contains("[*]"), "{rules}");
        assert!(line("discoveredhosts.firesteel.dev").contains("[get list watch]"), "{rules}");
        let rules = succeeded(&ask(&vic, &["auth", "can-i", "--list"]).unwrap());
        assert!(rules.contains("baremetalhosts.metal3.io") && !rules.contains("secrets"), "{rules}");
        let refused = ask(&ann, &["get", "bmh", "-n", "hosts-b"]).unwrap();
        let text = String::from_utf8(refused.stderr).unwrap();
        let message = r#"Error from server (Forbidden): baremetalhosts.metal3.io is forbidden: User "ann" cannot list resource "baremetalhosts" in API group "metal3.io" in the namespace "hosts-b""#;
        assert_eq!(text.trim_end(), message);
        assert_eq!(succeeded(&ask(&ann, &["get", "bmh", "-o", "name"]).unwrap()), "baremetalhost.metal3.io/x\n");
    });
}

#[test]
fn kubectl_makes_tokens() {
    run(async {
        let site = Site::new().await;
        let Some(mut command) = kubectl(&site, &site.appliance.kubeconfig()) else { return };
        let account = json!({ "kind": "ServiceAccount", "namespace": "claims-a", "name": "x" });
        site.grant("x", account, "tenant", "claims-a").await;
        let arguments = ["create", "token", "x", "-n", "claims-a", "--duration=10m"];
        let token = succeeded(&command.args(arguments).output().unwrap());
        let x = site.nobody().with_token(token.trim_end());
        assert_eq!(x.get("/api/v1/namespaces/claims-a/secrets").await, 200);
        assert_eq!(x.get("/api/v1/namespaces/claims-b/secrets").await, 403);
        let mut command = kubectl(&site, &site.appliance.kubeconfig()).unwrap();
        let short = command.args(["create", "token", "x", "-n", "claims-a", "--duration=5m"]).output().unwrap();
        let error = String::from_utf8(short.stderr).unwrap();
        assert!(error.contains("may not specify a duration less than 10 minutes"), "{error}");
    });
}

#[test]
fn kubectl_watches_until_its_user_is_put_out() {
    run(async {
        let site = Site::new().await;
        let file = site.let_in("ann", "operator", Some("hosts-a"));
        let Some(mut command) = kubectl(&site, &file) else { return };
        command.args(["get", "bmh", "-w", "-o", "name"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut watching = command.spawn().unwrap();
        let mut shown = BufReader::new(watching.stdout.take().unwrap());
        let mut line = String::new();
        shown.read_line(&mut line).unwrap();
        assert_eq!(line, "baremetalhost.metal3.io/x\n");
        succeeded(&site.appliance.command().args(["kubeconfig", "--revoke", "ann", "--yes"]).output().unwrap());
        // It ends by itself: the pipe is closed.
        let mut rest = String::new();
        shown.read_to_string(&mut rest).unwrap();
        watching.wait().unwrap();
        assert_eq!(Person::of(&file).get("/apis").await, 401);
        let refused = kubectl(&site, &file).unwrap().args(["get", "bmh"]).output().unwrap();
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.contains("(Unauthorized)"), "{error}");
    });
}
