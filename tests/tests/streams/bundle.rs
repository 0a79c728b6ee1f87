//! A bundle made at a site with a network and taken in at one without (S1.25).

use std::{fs, io::Read as _, net::TcpListener};

use firesteel_facts::Sha256;
use firesteel_tests::appliance::Appliance;
use serde_json::{Value, json};

use crate::file_server::FileServer;
use crate::site::{PROGRAM, file, follow, metadata, output, publish, run, until};

fn is_stamped(status: &Value) -> bool {
    status["stamped"] == true
}

#[test]
fn what_a_bundle_has_is_golden_without_a_network() {
    let server = FileServer::start();
    let (packed, raw) = publish(&server, "44.1", 4);
    let here = Appliance::start(PROGRAM);
    follow(&here, &json!({"url": server.url("/stable.json")}));
    until(&here, "the stamp", is_stamped);
    let bundle = here.folder().join("site.bundle");
    let image = |site: &Appliance, arguments: &[&str]| {
        let mut command = site.command();
        command.arg("image").args(arguments).arg("--data").arg(site.data());
        command
    };
    let path = bundle.to_str().unwrap();
    let told = output(&mut image(&here, &["export", "--bundle", path]));
    assert!(told.contains("1 images, 0 files, 1 streams") && told.contains("stream stable: 1"), "{told}");
    let refused = run(&mut image(&here, &["export", "--bundle", path, "--stream", "none"]));
    let why = "no metadata of a stream none was read yet; there is metadata of: stable";
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains(why));
    let by_digest = here.folder().join("one.bundle");
    let digits = raw.to_string()[..10].to_owned();
    output(&mut image(&here, &["export", "--bundle", by_digest.to_str().unwrap(), &digits]));

    // Whoever is asked at the other site hears it here.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    nobody.set_nonblocking(true).unwrap();
    let there = Appliance::start(PROGRAM);
    let told = output(&mut image(&there, &["import", "--bundle", path]));
    assert!(told.contains("1 images and 0 files") && told.contains("spec.source.file: stable.json"), "{told}");
    // The same metadata, with addresses that lead to the listener.
    let address = format!("http://{}/44.1.raw.gz", nobody.local_addr().unwrap());
    let formats = json!({"raw.gz": {"disk": file(&address, Sha256::of(&packed), Some(raw))}});
    let stable = there.data().join("streams/stable.json");
    let chosen = metadata("44.1", &formats);
    fs::write(&stable, &chosen).unwrap();
    // A bundle does not replace what somebody chose, unless that is wanted.
    let kept = run(&mut image(&there, &["import", "--bundle", path]));
    let (told, refused) = (String::from_utf8_lossy(&kept.stdout), String::from_utf8_lossy(&kept.stderr));
    let digits = Sha256::of(&chosen).to_string()[..12].to_owned();
    assert_eq!(kept.status.code(), Some(1), "its metadata is not in its place");
    assert!(told.contains("1 images") && refused.contains(&digits), "{told}{refused}");
    assert!(refused.contains("--replace-streams"), "{refused}");
    assert_eq!(fs::read(&stable).unwrap(), chosen);
    let told = output(&mut image(&there, &["import", "--bundle", path, "--replace-streams"]));
    assert!(told.contains("in place of another") && told.contains(&digits), "{told}");
    assert_ne!(fs::read(&stable).unwrap(), chosen);
    fs::write(&stable, &chosen).unwrap();
    follow(&there, &json!({"file": "stable.json"}));
    let status = until(&there, "the stamp", is_stamped);
    let artifact = &status["releases"][0]["artifacts"][0];
    assert_eq!(
        (artifact["rawSha256"].as_str(), artifact["state"].as_str()),
        (Some(raw.to_string().as_str()), Some("verified"))
    );
    assert!(artifact["message"].as_str().unwrap().contains("bundle"), "whose word it is: {artifact}");
    assert!(nobody.accept().is_err(), "somebody went out");
    // What only a bundle says is told as that.
    let listed = output(&mut image(&there, &["ls"]));
    assert!(listed.contains("image, by a bundle") && listed.contains("stream stable"), "{listed}");
    // A bundle can be handed on.
    let onward = there.folder().join("onward.bundle");
    output(&mut image(&there, &["export", "--bundle", onward.to_str().unwrap(), "--stream", "stable"]));
}

/// A bundle that was taken in, and whose metadata could not be written, was called a success.
#[test]
fn metadata_that_cannot_be_written_is_an_error() {
    let server = FileServer::start();
    publish(&server, "44.1", 4);
    let here = Appliance::start(PROGRAM);
    follow(&here, &json!({"url": server.url("/stable.json")}));
    until(&here, "the stamp", is_stamped);
    let bundle = here.folder().join("site.bundle");
    let mut export = here.command();
    output(export.args(["image", "export", "--bundle"]).arg(&bundle).arg("--data").arg(here.data()));
    let there = here.folder().join("other");
    // Where it would be made before it is put in its place.
    fs::create_dir_all(there.join("streams/.stable.json.new")).unwrap();
    let mut import = here.command();
    let failed = run(import.args(["image", "import", "--bundle"]).arg(&bundle).arg("--data").arg(&there));
    let said = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("stream stable: could not write") && said.contains("stable.json"), "{said}");
    assert!(String::from_utf8_lossy(&failed.stdout).contains("1 images"), "the images are there all the same");
}

#[test]
fn what_is_no_bundle_or_a_cut_one_is_refused() {
    let server = FileServer::start();
    publish(&server, "44.1", 4);
    let site = Appliance::start(PROGRAM);
    follow(&site, &json!({"url": server.url("/stable.json")}));
    until(&site, "the stamp", is_stamped);
    let path = site.folder().join("a.bundle");
    let image = |arguments: &[&str]| {
        let mut command = site.command();
        command.arg("image").args(arguments).arg("--data").arg(site.folder().join("other"));
        command
    };
    let mut export = site.command();
    output(export.args(["image", "export", "--bundle"]).arg(&path).arg("--data").arg(site.data()));
    let mut bytes = Vec::new();
    fs::File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
    let cut = site.folder().join("cut.bundle");
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let refused = run(&mut image(&["import", "--bundle", cut.to_str().unwrap()]));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("the bundle was not imported as a whole"), "{said}");
    for (what, text) in
        [("/dev/zero", "this is no bundle"), ("/dev/null", "this is no bundle"), (PROGRAM, "this is no bundle")]
    {
        let refused = run(&mut image(&["import", "--bundle", what]));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(text), "{what}: {said}");
    }
    // What is kept of one stream cannot be read: the others can be exported by name.
    fs::create_dir(site.data().join("streams/followed/bad.json")).unwrap();
    let export = |arguments: &[&str]| {
        let mut command = site.command();
        command
            .args(["image", "export", "--bundle"])
            .arg(site.folder().join("b.bundle"))
            .arg("--data")
            .arg(site.data());
        command.args(arguments);
        run(&mut command)
    };
    let refused = export(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("stream bad") && said.contains("bad.json"), "{said}");
    assert!(!site.folder().join("b.bundle").exists());
    assert!(export(&["--stream", "stable"]).status.success());
    let refused = run(&mut image(&["import"]));
    assert!(!refused.status.success(), "neither a source nor a bundle");
    let empty = run(&mut image(&["export", "--bundle", path.to_str().unwrap()]));
    assert!(!empty.status.success() && String::from_utf8_lossy(&empty.stderr).contains("would be empty"));
    assert_eq!(fs::read(&path).unwrap(), bytes, "what was there stays");
}
