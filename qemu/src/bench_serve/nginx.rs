//! Debian's nginx with one file, over HTTP and over TLS; two workers, sendfile, TLS 1.3: as it is set up where images are
//! served in earnest. It ends with the value.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::{os, tools::Tools};

const PLAIN_PORT: u16 = 18_080;
const TLS_PORT: u16 = 18_443;
const READY_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Nginx {
    child: Child,
    /// The file's addresses.
    pub(super) plain: String,
    pub(super) tls: String,
}

impl Nginx {
    /// Serves the file `image` of `root`.
    pub(super) async fn start(tools: &Tools, folder: &Path, root: &Path, address: Ipv4Addr) -> anyhow::Result<Self> {
        let work = folder.join("nginx");
        fs::create_dir_all(&work).context("making a folder for nginx")?;
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec![address.to_string()]).context("making nginx's certificate")?;
        fs::write(work.join("cert.pem"), cert.pem()).context("writing nginx's certificate")?;
        fs::write(work.join("key.pem"), signing_key.serialize_pem()).context("writing nginx's key")?;
        let settings = work.join("nginx.conf");
        fs::write(&settings, conf(&work, root, address)).context("writing nginx's settings")?;
        let log = work.join("nginx.log");
        let mut command = Command::new(tools.program("nginx")?);
        command
            .args(["-e", "stderr", "-c"])
            .arg(&settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).context("making nginx's log")?);
        // The master passes it on to its workers.
        os::die_with_parent(command.as_std_mut(), Signal::SIGTERM);
        let mut nginx = Self {
            child: command.spawn().context("starting nginx")?,
            plain: format!("http://{address}:{PLAIN_PORT}/image"),
            tls: format!("https://{address}:{TLS_PORT}/image"),
        };
        let begun = Instant::now();
        for port in [PLAIN_PORT, TLS_PORT] {
            while TcpStream::connect((address, port)).await.is_err() {
                let ended = nginx.child.try_wait().context("waiting for nginx")?.is_some();
                if ended || begun.elapsed() > READY_TIMEOUT {
                    bail!("nginx does not serve; it says:\n{}", fs::read_to_string(&log).unwrap_or_default());
                }
                sleep(LOOK_EVERY).await;
            }
        }
        Ok(nginx)
    }

    /// Its master's process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }
}

/// Its workers outlive a master that is killed; a master that is asked to end takes them along.
impl Drop for Nginx {
    fn drop(&mut self) {
        let master = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(master) = master
            && let Err(error) = kill(Pid::from_raw(master), Signal::SIGTERM)
        {
            tracing::debug!(%error, "nginx is gone already");
        }
    }
}

fn conf(work: &Path, root: &Path, address: Ipv4Addr) -> String {
    let (work, root) = (work.display(), root.display());
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("    {name}_temp_path {work}/{name};\n"))
        .collect();
    format!(
        "daemon off;\nuser root;\nworker_processes 2;\npid {work}/nginx.pid;\nevents {{ worker_connections 4096; }}\n\
         http {{\n{temporary}    access_log off;\n    sendfile on;\n    sendfile_max_chunk 2m;\n    tcp_nopush on;\n    \
         default_type application/octet-stream;\n    root {root};\n    server {{ listen {address}:{PLAIN_PORT}; }}\n    \
         server {{\n        listen {address}:{TLS_PORT} ssl;\n        ssl_certificate {work}/cert.pem;\n        \
         ssl_certificate_key {work}/key.pem;\n        ssl_protocols TLSv1.3;\n    }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_what_is_there_and_every_block_ends() {
        let text = conf(Path::new("/w"), Path::new("/www"), Ipv4Addr::LOCALHOST);
        for wanted in
            ["root /www;", "listen 127.0.0.1:18443 ssl;", "ssl_certificate /w/cert.pem;", "proxy_temp_path /w/proxy;"]
        {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
