//! Secrets whose users fail: a BMC that refuses a password and says it aloud, a config that is wrong. What is
//! told says what happened; nothing of the secret is in a status, in a log or in any file.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Mutex;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_resources::bare_metal_host::BmcDetails;
use firesteel_resources::{Secret, SecretReference, secret::SecretBytes};
use firesteel_tests::canary::{MARK, canary, files_under, forms, found_in, holds};

use serde_json::json;

use crate::agent::{Agent, End, disk};
use crate::appliance::{Appliance, NAMESPACE};
use crate::images::{noise, published};

/// A BMC that lets nobody in, and shows everybody what he said: as he said it, and as it was meant.
fn parrot(refusal: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut said, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) <= 2 {
                    break;
                }
                if let Some((name, value)) = line.trim().split_once(": ") {
                    match name.to_lowercase().as_str() {
                        "content-length" => length = value.parse().unwrap(),
                        "authorization" => {
                            let pair = STANDARD.decode(value.strip_prefix("Basic ").unwrap()).unwrap();
                            said += &format!("{value} {}", String::from_utf8(pair).unwrap());
                        }
                        _ => {}
                    }
                }
            }
            let mut body = vec![0; length];
            drop(reader.read_exact(&mut body));
            said += &String::from_utf8_lossy(&body);
            // Only the root is for everybody.
            let (status, text) = if said.is_empty() {
                ("200 OK", json!({"RedfishVersion": "1.6.0"}))
            } else {
                let info = json!({"MessageId": "Base.1.0.AccessDenied", "Message": said});
                (refusal, json!({"error": {"message": said, "@Message.ExtendedInfo": [info]}}))
            };
            let (text, kind) = (text.to_string(), "Content-Type: application/json\r\nConnection: close");
            let length = text.len();
            drop(write!(stream, "HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{text}"));
        }
    });
    format!("redfish+http://{address}/redfish/v1/Systems/1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_secret_is_told_or_written_whatever_its_users_do() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let log = folder.path().join("log");
    let writer = Mutex::new(File::create(&log).unwrap());
    tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE).with_writer(writer).init();

    let appliance = Appliance::start(&data).await;
    let mut login = Secret::default();
    "login".clone_into(&mut login.metadata.name);
    NAMESPACE.clone_into(&mut login.metadata.namespace);
    for (key, value) in [("username", canary("user")), ("password", canary("password"))] {
        login.data.insert(key.to_owned(), SecretBytes(value.into_bytes()));
    }
    appliance.secrets.create(&login).await.unwrap();
    let parrots = [("unknown", "401 Unauthorized"), ("forbidden", "403 Forbidden"), ("refused", "400 Bad Request")];
    for (number, (name, refusal)) in parrots.into_iter().enumerate() {
        let bmc = BmcDetails { address: parrot(refusal), credentials_name: "login".into(), ..BmcDetails::default() };
        appliance.add_with(name, &format!("02:00:00:00:07:0{number}"), None, |host| host.spec.bmc = Some(bmc)).await;
        let error = appliance.error(name).await;
        assert!(error.starts_with("the BMC") || error.contains("login"), "{error}");
        assert_eq!(error.contains("(hidden)"), name != "unknown", "{error}");
    }

    let wrong = json!({
        "ignition": {"version": "3.4.0"}, "passwd": {"users": [{"name": canary("name"), "passwordHash": canary("hash")}]},
        "storage": {"files": [{"path": canary("path"), "contents": {"source": format!("data:,{}", canary("file"))}}]},
    });
    let (_origin, image) = published(noise(2 << 20));
    for (number, (name, config, told)) in [
        ("wrong", wrong.to_string(), "the Ignition config is not valid"),
        ("no-json", canary("text"), "the user data is neither an Ignition config"),
    ]
    .into_iter()
    .enumerate()
    {
        appliance.add_secret(name, "userData", config.as_bytes()).await;
        let mac = format!("02:00:00:00:07:1{number}");
        let user_data = SecretReference { name: name.into(), namespace: NAMESPACE.into() };
        appliance.add_with(name, &mac, Some(image.clone()), |host| host.spec.user_data = Some(user_data)).await;
        let mut agent = Agent::boot_with(&appliance, &mac, 1, "", vec![disk("sda", "A", 20)]).await;
        assert!(matches!(agent.work(&appliance, name).await, End::Error), "{name}: a disk was to be written");
        appliance.assert_told(name, &[told]).await;
    }
    for name in ["unknown", "forbidden", "refused", "wrong", "no-json"] {
        let told = appliance.page(name).await + &appliance.error(name).await;
        for (form, wanted) in forms() {
            assert!(!holds(told.as_bytes(), &wanted), "{name} tells the secret {form}: {told}");
        }
    }
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains("TRACE") || logged.contains("DEBUG"), "nothing is logged: {logged}");
    assert_eq!(found_in(&files_under(folder.path()), &forms()), Vec::<String>::new(), "{MARK} was written");
}
