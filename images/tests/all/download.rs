//! Downloads from servers that break off, lie, stall and redirect; local files and their walls.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, thread};

use firesteel_dial::{Dialer, Targets};
use firesteel_facts::Sha256;
use firesteel_images::http::{Download, DownloadLimits, HttpError, HttpReader};
use firesteel_images::import::{
    AcquireError, Acquirer, AcquisitionStage, DOWNLOADS_AT_ONCE, ImageRequest, ImageStore, ImportFormat, LocalError,
    StoredImage, WebClient,
};

use crate::{artifacts::web, disks::gpt_image};

/// What a server answers to one connection.
#[derive(Clone)]
struct Answer {
    head: String,
    body: Vec<u8>,
    /// Keep the connection open without sending more.
    stall: bool,
}

fn answer(head: &str, body: &[u8]) -> Answer {
    Answer { head: head.to_owned(), body: body.to_vec(), stall: false }
}

/// 200 with a length and a strong ETag, of which only the first bytes are sent.
fn whole(body: &[u8], sent: usize) -> Answer {
    answer(&format!("200 OK\r\nETag: \"one\"\r\nContent-Length: {}", body.len()), &body[..sent])
}

fn part(body: &[u8], start: usize, etag: &str) -> Answer {
    let range = format!("Content-Range: bytes {start}-{}/{}", body.len() - 1, body.len());
    let head = format!("206 Partial Content\r\nETag: \"{etag}\"\r\n{range}\r\nContent-Length: {}", body.len() - start);
    answer(&head, &body[start..])
}

/// Serves the answers in turn, then the last again and again. Keeps the requests.
struct Server {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/images/disk.raw", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let mut answers = VecDeque::from(answers);
        thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let Some(answer) = answers.front().cloned() else { return };
                if answers.len() > 1 {
                    answers.pop_front();
                }
                seen.lock().unwrap().push(read_request(&stream));
                // The client may hang up; that is its right.
                drop(send(&stream, &answer));
                if answer.stall {
                    kept.push(stream);
                }
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> String {
    let lines = BufReader::new(stream).lines();
    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n").to_lowercase()
}

fn send(mut stream: &TcpStream, answer: &Answer) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {}\r\nConnection: close\r\n\r\n", answer.head)?;
    stream.write_all(&answer.body)
}

fn limits() -> DownloadLimits {
    DownloadLimits { attempts_max: 3, pause: Duration::from_millis(1), ..DownloadLimits::default() }
}

async fn get(
    url: &str,
    limits: DownloadLimits,
    expected: Option<u64>,
    digest_known: bool,
) -> Result<Vec<u8>, HttpError> {
    let mut download = Download::new(web(), url, limits, expected, digest_known)?;
    let mut bytes = Vec::new();
    while let Some(more) = download.next().await? {
        bytes.extend_from_slice(&more);
    }
    Ok(bytes)
}

fn content() -> Vec<u8> {
    (0..100_000_u32).map(|index| index.to_le_bytes()[usize::from(index % 3 == 0)]).collect()
}

#[tokio::test]
async fn a_broken_connection_is_resumed_where_it_broke() {
    let body = content();
    let server = Server::new(vec![whole(&body, 40_000), part(&body, 40_000, "one")]);
    assert_eq!(get(&server.url, limits(), None, false).await.unwrap(), body);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[1].contains("range: bytes=40000-"), "{}", requests[1]);
    assert!(requests[1].contains("if-range: \"one\""), "{}", requests[1]);
}

#[tokio::test]
async fn a_resumption_that_could_mix_two_files_is_refused() {
    let body = content();
    let wrong_start = part(&body, 39_999, "one");
    let whole_again = whole(&body, body.len());
    let mut other_length = part(&body, 40_000, "one");
    other_length.head = other_length.head.replace("/100000", "/100001").replace("-99999", "-100000");
    let gone = answer("416 Range Not Satisfiable\r\nContent-Length: 0", b"");
    for second in [wrong_start, whole_again, other_length, gone, part(&body, 40_000, "two")] {
        let server = Server::new(vec![whole(&body, 40_000), second.clone()]);
        let error = get(&server.url, limits(), None, true).await.unwrap_err();
        assert!(matches!(error, HttpError::Changed { .. }), "{}: {error:?}", second.head);
    }
    // Without a strong ETag and without a digest to check in the end, bytes of two files could
    // be mixed unnoticed.
    let mut weak = whole(&body, 40_000);
    weak.head = weak.head.replace("\"one\"", "W/\"one\"");
    let server = Server::new(vec![weak, part(&body, 40_000, "one")]);
    let error = get(&server.url, limits(), None, false).await.unwrap_err();
    assert!(matches!(error, HttpError::CannotResume { .. }), "{error:?}");
}

#[tokio::test]
async fn lengths_are_believed_by_nobody() {
    let body = content();
    // The server states less than the caller knows.
    let server = Server::new(vec![whole(&body, body.len())]);
    let error = get(&server.url, limits(), Some(100_001), true).await.unwrap_err();
    assert!(matches!(error, HttpError::Length { .. }), "{error:?}");
    // States too much for us.
    let error = get(&server.url, DownloadLimits { bytes_max: 99_999, ..limits() }, None, true).await.unwrap_err();
    assert!(matches!(error, HttpError::TooLarge { .. }), "{error:?}");
    // States nothing, and sends too much.
    let server = Server::new(vec![answer("200 OK", &body)]);
    let error = get(&server.url, DownloadLimits { bytes_max: 99_999, ..limits() }, None, true).await.unwrap_err();
    assert!(matches!(error, HttpError::TooLarge { .. }), "{error:?}");
    // Always ends early.
    let server = Server::new(vec![whole(&body, 0)]);
    let error = get(&server.url, limits(), None, true).await.unwrap_err();
    assert!(matches!(error, HttpError::Broken { .. } | HttpError::Truncated { .. }), "{error:?}");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_stall_ends_and_so_do_attempts() {
    let body = content();
    let impatient = DownloadLimits { stall: Duration::from_millis(300), ..limits() };
    let stalled = Answer { stall: true, ..whole(&body, 10) };
    let server = Server::new(vec![stalled]);
    let error = get(&server.url, impatient, None, true).await.unwrap_err();
    // The second attempt asks for a part and gets the whole again.
    assert!(matches!(error, HttpError::Changed { .. }), "{error:?}");
    let silent = Answer { stall: true, ..whole(&body, 0) };
    let server = Server::new(vec![silent]);
    let error = get(&server.url, impatient, None, true).await.unwrap_err();
    assert!(matches!(error, HttpError::Stalled { .. }), "{error:?}");
    // The last connection may not have been accepted before its client gave up.
    for _ in 0..600 {
        if server.requests().len() == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn other_answers_are_errors_and_only_some_are_tried_again() {
    for (head, attempts) in [("404 Not Found", 1), ("204 No Content", 1), ("206 Partial Content", 1), ("503 Busy", 3)] {
        let server = Server::new(vec![answer(&format!("{head}\r\nContent-Length: 0"), b"")]);
        let error = get(&server.url, limits(), None, true).await.unwrap_err();
        assert!(matches!(error, HttpError::Status { .. }), "{head}: {error:?}");
        assert_eq!(server.requests().len(), attempts, "{head}");
    }
    let body = content();
    let server = Server::new(vec![answer("503 Busy\r\nContent-Length: 0", b""), whole(&body, body.len())]);
    assert_eq!(get(&server.url, limits(), None, true).await.unwrap(), body);
}

#[tokio::test]
async fn redirects_are_followed_but_not_for_ever_or_anywhere() {
    let body = content();
    let end = Server::new(vec![whole(&body, body.len())]);
    let redirect = |to: &str| answer(&format!("302 Found\r\nLocation: {to}\r\nContent-Length: 0"), b"");
    let server = Server::new(vec![redirect(&end.url)]);
    assert_eq!(get(&server.url, limits(), None, true).await.unwrap(), body);
    for to in ["/images/again", "file:///etc/passwd", "ftp://127.0.0.1/x"] {
        let server = Server::new(vec![redirect(to)]);
        let error = get(&server.url, limits(), None, true).await.unwrap_err();
        assert!(matches!(error, HttpError::Redirect { .. }), "{to}: {error:?}");
    }
    assert!(matches!(get("ftp://127.0.0.1/x", limits(), None, true).await, Err(HttpError::Address { .. })));
}

#[test]
fn the_blocking_reader_reads_the_same() {
    use std::io::Read;
    let body = content();
    let server = Server::new(vec![whole(&body, 70_000), part(&body, 70_000, "one")]);
    let download = Download::new(web(), &server.url, limits(), Some(body.len() as u64), true).unwrap();
    let mut read = Vec::new();
    HttpReader::new(download).unwrap().read_to_end(&mut read).unwrap();
    assert_eq!(read, body);
}

async fn acquire(dir: &Path, root: Option<&Path>, request: &ImageRequest) -> Result<StoredImage, AcquireError> {
    let store = ImageStore::open(dir).unwrap();
    Acquirer::new(store, root, web()).with_limits(limits()).acquire(request, Arc::new(|_| {})).await
}

#[tokio::test]
async fn an_image_is_acquired_once_for_one_checksum() {
    let dir = tempfile::tempdir().unwrap();
    let image = gpt_image(4 << 20, 512);
    let digest = Sha256::of(&image);
    let server = Server::new(vec![whole(&image, image.len())]);
    let request = ImageRequest { url: server.url.clone(), checksum: digest.to_string(), ..ImageRequest::default() };
    let first = acquire(dir.path(), None, &request).await.unwrap();
    let second = acquire(dir.path(), None, &request).await.unwrap();
    assert_eq!(first.meta, second.meta);
    assert_eq!(first.meta.raw_sha256, digest);
    assert_eq!(server.requests().len(), 1);
    let left = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 2, "only the image and its metadata");
}

/// What was stored already was installed under any declared format.
#[tokio::test]
async fn a_declared_format_is_compared_with_what_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let image = gpt_image(4 << 20, 512);
    let server = Server::new(vec![whole(&image, image.len())]);
    let request = |declared| ImageRequest {
        url: server.url.clone(),
        checksum: Sha256::of(&image).to_string(),
        declared,
        ..ImageRequest::default()
    };
    acquire(dir.path(), None, &request(None)).await.unwrap();
    let error = acquire(dir.path(), None, &request(Some(ImportFormat::Qcow2))).await.unwrap_err();
    assert!(error.explain().contains("declared as qcow2, but it is raw"), "{}", error.explain());
    acquire(dir.path(), None, &request(Some(ImportFormat::Raw))).await.unwrap();
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_checksum_may_be_the_address_of_a_file_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let image = gpt_image(4 << 20, 512);
    let server = Server::new(vec![whole(&image, image.len())]);
    let request = |lines: &str| {
        let sums = Server::new(vec![whole(lines.as_bytes(), lines.len())]);
        ImageRequest { url: server.url.clone(), checksum: sums.url.clone(), ..ImageRequest::default() }
    };
    let wrong = format!("{}  disk.raw\n", "0".repeat(64));
    let error = acquire(dir.path(), None, &request(&wrong)).await.unwrap_err();
    assert!(matches!(error, AcquireError::Import { .. }), "{error:?}");
    let missing = format!("{}  other.raw\n{}  more.raw\n", "0".repeat(64), "1".repeat(64));
    let error = acquire(dir.path(), None, &request(&missing)).await.unwrap_err();
    assert!(matches!(error, AcquireError::Checksum(_)), "{error:?}");
    let right = format!("{}  other.raw\n{}  disk.raw\n", "0".repeat(64), Sha256::of(&image));
    let stored = acquire(dir.path(), None, &request(&right)).await.unwrap();
    assert_eq!(stored.meta.raw_sha256, Sha256::of(&image));
}

#[tokio::test]
async fn local_files_are_read_below_one_folder_only() {
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let outside = tempfile::tempdir().unwrap();
    let image = gpt_image(4 << 20, 512);
    fs::write(root.path().join("disk.raw"), &image).unwrap();
    fs::write(outside.path().join("secret"), &image).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), root.path().join("link")).unwrap();
    std::os::unix::fs::symlink("disk.raw", root.path().join("inner-link")).unwrap();
    let pipe = root.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let at = |path: &Path| ImageRequest { url: format!("file://{}", path.display()), ..ImageRequest::default() };
    for good in ["disk.raw", "inner-link"] {
        let stored = acquire(dir.path(), Some(root.path()), &at(&root.path().join(good))).await.unwrap();
        assert_eq!(stored.meta.raw_sha256, Sha256::of(&image));
    }
    let escape = root.path().join("..").join(outside.path().file_name().unwrap()).join("secret");
    for bad in [
        root.path().join("link"),
        escape,
        outside.path().join("secret"),
        pipe,
        root.path().to_path_buf(),
        root.path().join("missing"),
        Path::new("/dev/zero").to_path_buf(),
    ] {
        let error = acquire(dir.path(), Some(root.path()), &at(&bad)).await.unwrap_err();
        assert!(matches!(error, AcquireError::Local(_)), "{}: {error:?}", bad.display());
    }
    let error = acquire(dir.path(), None, &at(&root.path().join("disk.raw"))).await.unwrap_err();
    assert!(matches!(error, AcquireError::Local(LocalError::NoFolder { .. })), "{error:?}");
    let other = ImageRequest { url: "ftp://127.0.0.1/x".to_owned(), ..ImageRequest::default() };
    assert!(matches!(acquire(dir.path(), None, &other).await, Err(AcquireError::Scheme { .. })));
}

/// A byte now and then is no stall: who waits for metadata waited for days.
#[tokio::test]
async fn a_small_file_that_trickles_ends() {
    let dir = tempfile::tempdir().unwrap();
    let limits = DownloadLimits { stall: Duration::from_millis(300), ..limits() };
    let acquirer = Acquirer::new(ImageStore::open(dir.path()).unwrap(), None, web()).with_limits(limits);
    // A pause of the machine looks like a stall: then once more.
    for _ in 0..20 {
        match acquirer.document(&trickling(), 1 << 20).await.unwrap_err() {
            HttpError::Slow { .. } => return,
            HttpError::Stalled { .. } | HttpError::CannotResume { .. } => {}
            error => panic!("{error:?}"),
        }
    }
    panic!("it stalled each time");
}

/// An image that comes byte by byte would take its place for years.
#[tokio::test]
async fn an_image_that_trickles_ends() {
    let limits = DownloadLimits { trickle: Duration::from_millis(500), ..limits() };
    let error = get(&trickling(), limits, None, true).await.unwrap_err();
    assert!(matches!(error, HttpError::Trickles { .. }), "{error:?}");
}

/// After a start each host asks for its image again: what is there waited behind all downloads.
#[tokio::test]
async fn an_image_that_is_stored_waits_for_no_download() {
    let dir = tempfile::tempdir().unwrap();
    let image = gpt_image(4 << 20, 512);
    let server = Server::new(vec![whole(&image, image.len())]);
    let acquirer = Acquirer::new(ImageStore::open(dir.path()).unwrap(), None, web()).with_limits(limits());
    let request =
        ImageRequest { url: server.url.clone(), checksum: Sha256::of(&image).to_string(), ..ImageRequest::default() };
    acquirer.acquire(&request, Arc::new(|_| {})).await.unwrap();
    // The system takes its connections, and nothing answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/disk.raw", silent.local_addr().unwrap());
    let waits = Arc::new(tokio::sync::Notify::new());
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..=DOWNLOADS_AT_ONCE {
        let (acquirer, waits) = (acquirer.clone(), Arc::clone(&waits));
        let request = ImageRequest { url: url.clone(), ..ImageRequest::default() };
        slow.spawn(async move {
            let tell = move |stage: AcquisitionStage| {
                if matches!(stage, AcquisitionStage::Waiting { .. }) {
                    waits.notify_one();
                }
            };
            acquirer.acquire(&request, Arc::new(tell)).await.map(drop)
        });
    }
    waits.notified().await;
    let again = acquirer.acquire(&request, Arc::new(|_| {}));
    let again = tokio::time::timeout(Duration::from_secs(60), again).await.expect("it waits for no turn").unwrap();
    assert_eq!(again.meta.raw_sha256, Sha256::of(&image));
    assert_eq!(server.requests().len(), 1);
}

/// What an address may hold that nobody is to read is in no message.
#[tokio::test]
async fn messages_name_no_secret_of_an_address() {
    let server = Server::new(vec![answer("404 Not Found\r\nContent-Length: 0", b"")]);
    let error = get(&format!("{}?signature=planted", server.url), limits(), None, true).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("planted"), "{error:?}");
    assert!(error.to_string().contains("disk.raw?(hidden) answered 404"), "{error}");
    assert!(server.requests()[0].contains("?signature=planted"), "it is asked for all the same");
    let login = server.url.replace("http://", "http://me:planted@");
    let error = get(&login, limits(), None, true).await.unwrap_err();
    assert!(matches!(error, HttpError::UserInformation { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("planted"), "{error:?}");
    assert!(error.help().contains("firesteel.dev/image-login"), "{}", error.help());
}

/// Nothing is downloaded from where only the appliance reaches, and nothing is tried twice for it.
#[tokio::test]
async fn an_address_that_is_not_dialled_names_the_flag() {
    let server = Server::new(vec![whole(b"inside", 6)]);
    let strict = WebClient::new(Dialer::new(Targets::default())).unwrap();
    let mut download = Download::new(strict, &server.url, limits(), None, true).unwrap();
    let error = download.next().await.unwrap_err();
    assert!(matches!(error, HttpError::Refused { .. }), "{error:?}");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("--allow-target 127.0.0.1/32"), "{source}");
    assert_eq!(server.requests(), Vec::<String>::new());
}

/// The address of a file that one client gets byte by byte.
fn trickling() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/stream.json", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n").unwrap();
        // Until the client hangs up.
        while stream.write_all(b" ").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    url
}
