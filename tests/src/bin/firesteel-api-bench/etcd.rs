//! etcd, one member with a folder of its own, spoken to in gRPC: the few messages are written by hand.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use http::Request;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// One that has not answered by then does not start.
const START: Duration = Duration::from_secs(60);

type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// A running etcd; it ends with this.
#[derive(Debug)]
pub(crate) struct Etcd {
    process: Child,
    address: SocketAddr,
}

/// Where the program is, if it is here.
pub(crate) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("etcd")).find(|program| program.is_file())
}

/// What it calls itself.
pub(crate) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output().context("asking etcd for its version")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().replace("etcd Version: ", "etcd "))
}

impl Etcd {
    pub(crate) async fn start(program: &Path, data: &Path) -> Result<Self> {
        // Free at the moment that they were asked for.
        let listeners = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let [clients, peers] = listeners.map(|listener| listener.and_then(|listener| listener.local_addr()));
        let (address, peers) = (clients?, format!("http://{}", peers?));
        let url = format!("http://{address}");
        let mut process = Command::new(program)
            .args(["--name", "bench", "--log-level", "error", "--data-dir"])
            .arg(data)
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("bench={peers}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(data.with_extension("log"))?)
            .spawn()
            .context("starting etcd")?;
        let asked = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if let Some(status) = process.try_wait()? {
                bail!("etcd ended ({status}), see {}", data.with_extension("log").display());
            }
            if let Ok(mut client) = Client::connect(address).await
                && client.put("/ready", Bytes::from_static(b"yes")).await.is_ok()
            {
                return Ok(Self { process, address });
            }
            if asked.elapsed() > START {
                process.kill()?;
                bail!("etcd does not answer");
            }
        }
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        Client::connect(self.address).await
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if self.process.kill().is_ok()
            && let Err(error) = self.process.wait()
        {
            eprintln!("etcd did not end: {error}");
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    sender: http2::SendRequest<Body>,
    address: SocketAddr,
}

impl Client {
    async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("connecting to etcd")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        // Ends with the sender.
        tokio::spawn(connection);
        Ok(Self { sender, address })
    }

    async fn call(&mut self, method: &str, body: Body) -> Result<Incoming> {
        let request = Request::builder()
            .method("POST")
            .uri(format!("http://{}/etcdserverpb.{method}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(body)?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await.context("asking etcd")?.into_body())
    }

    /// Puts a value; it is on etcd's disk when this returns.
    pub(crate) async fn put(&mut self, key: &str, value: Bytes) -> Result<()> {
        let mut message = BytesMut::with_capacity(value.len() + key.len() + 16);
        bytes_field(&mut message, 1, key.as_bytes());
        bytes_field(&mut message, 2, &value);
        let body = self.call("KV/Put", Full::new(framed(&message)).boxed_unsync()).await?;
        let answer = body.collect().await.context("reading etcd's answer")?;
        let status = answer.trailers().and_then(|trailers| trailers.get("grpc-status")).cloned();
        ensure!(status.is_some_and(|status| status == "0"), "etcd refused a put");
        Ok(())
    }

    /// Watches one key.
    pub(crate) async fn watch(&mut self, key: &str) -> Result<Watch> {
        let (mut create, mut message) = (BytesMut::new(), BytesMut::new());
        bytes_field(&mut create, 1, key.as_bytes());
        bytes_field(&mut message, 1, &create);
        let asked = stream::iter([Ok(Frame::data(framed(&message)))]);
        // The watch lives as long as its request does.
        let body = self.call("Watch/Watch", StreamBody::new(asked.chain(stream::pending())).boxed_unsync()).await?;
        let mut watch = Watch { body, rest: BytesMut::new() };
        // That it was made.
        watch.next().await?;
        Ok(watch)
    }
}

/// A watch; each message of it is an event, as long as one is put at a time.
#[derive(Debug)]
pub(crate) struct Watch {
    body: Incoming,
    rest: BytesMut,
}

impl Watch {
    pub(crate) async fn next(&mut self) -> Result<()> {
        loop {
            if let Some(mut head) = self.rest.get(1..5) {
                let length = head.get_u32() as usize + 5;
                if self.rest.len() >= length {
                    self.rest.advance(length);
                    return Ok(());
                }
            }
            let frame = self.body.frame().await.context("etcd ended the watch")??;
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }
}

/// A message as gRPC sends it: not compressed, its length, itself.
fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// A field of bytes in protobuf: number and form, length, bytes.
fn bytes_field(message: &mut BytesMut, number: u8, value: &[u8]) {
    message.put_u8(number << 3 | 2);
    let mut length = value.len();
    while length >= 0x80 {
        message.put_u8(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    message.put_u8(u8::try_from(length).unwrap_or_default());
    message.put_slice(value);
}
