//! Secrets whose users fail: a BMC that refuses a password and says it aloud, a config that is wrong. What is
//! told says what happened; nothing of the secret is in a status, in a log or in any file.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Mutex;

use firesteel_resources::bare_metal_host::BmcDetails;
use firesteel_resources::{Secret, SecretReference, secret::SecretBytes};
use firesteel_tests::canary::{MARK, canary, files_under, forms, found_in, holds};

use crate::agent::{Agent, End, disk};
use crate::appliance::{Appliance, NAMESPACE};
use crate::images::{noise, published};

/// A BMC that lets nobody in, and shows everybody what he said.
fn parrot() -> String {
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
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                said += line.trim();
            }
            let mut body = vec![0; length];
            drop(reader.read_exact(&mut body));
            said += &String::from_utf8_lossy(&body);
            let info = serde_json::json!({"MessageId": "Base.1.0.AccessDenied", "Message": said});
            let text = serde_json::json!({"error": {"message": said, "@Message.ExtendedInfo": [info]}}).to_string();
            let head = "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nConnection: close\r\n";
            drop(write!(stream, "{head}Content-Length: {}\r\n\r\n{text}", text.len()));
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
    let bmc = BmcDetails { address: parrot(), credentials_name: "login".into(), ..BmcDetails::default() };
    appliance.add_with("with-bmc", "02:00:00:00:07:01", None, |host| host.spec.bmc = Some(bmc)).await;
    let error = appliance.error("with-bmc").await;
    assert!(error.contains("login") || error.contains("credentials"), "{error}");

    let wrong = serde_json::json!({
        "ignition": {"version": "3.4.0"}, "passwd": {"users": [{"name": canary("name"), "passwordHash": canary("hash")}]},
        "storage": {"files": [{"path": canary("path"), "contents": {"source": format!("data:,{}", canary("file"))}}]},
    });
    let (_origin, image) = published(noise(2 << 20));
    for (number, (name, config)) in [("wrong", wrong.to_string()), ("no-json", canary("text"))].into_iter().enumerate()
    {
        appliance.add_secret(name, "userData", config.as_bytes()).await;
        let mac = format!("02:00:00:00:07:1{number}");
        let user_data = SecretReference { name: name.into(), namespace: NAMESPACE.into() };
        appliance.add_with(name, &mac, Some(image.clone()), |host| host.spec.user_data = Some(user_data)).await;
        let mut agent = Agent::boot_with(&appliance, &mac, 1, "", vec![disk("sda", "A", 20)]).await;
        assert!(matches!(agent.work(&appliance, name).await, End::Error), "{name}: a disk was to be written");
        appliance.assert_told(name, &["the Ignition config in Secret"]).await;
    }
    for name in ["with-bmc", "wrong", "no-json"] {
        let told = appliance.page(name).await + &appliance.error(name).await;
        for (form, wanted) in forms() {
            assert!(!holds(told.as_bytes(), &wanted), "{name} tells the secret {form}: {told}");
        }
    }
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains("TRACE") || logged.contains("DEBUG"), "nothing is logged: {logged}");
    assert_eq!(found_in(&files_under(folder.path()), &forms()), Vec::<String>::new(), "{MARK} was written");
}
