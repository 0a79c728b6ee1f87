//! A local HTTP server with one file: as little as curl and the agent's client need.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, Result};

/// Serves the file to everyone on the loopback interface, until the process ends. Returns its URL.
pub(crate) fn serve(file: PathBuf) -> Result<String> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).context("listening on loopback")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if let Err(error) = answer(&stream, &file) {
                eprintln!("serving the image: {error}");
            }
        }
    });
    Ok(format!("http://{address}/image.raw.zst"))
}

fn answer(mut stream: &TcpStream, path: &Path) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n")?;
    // The standard library uses sendfile here.
    io::copy(&mut file, &mut stream)?;
    Ok(())
}
