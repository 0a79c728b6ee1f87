//! Disk images that an appliance on a wire of its own can fetch.

#![allow(clippy::unwrap_used, reason = "a test that cannot have it fails by panicking")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::network::ADDRESS;

const BYTES: usize = 1 << 20;

/// Serves an image with a partition table from now on, in this thread's namespace; as a host names it.
#[must_use]
pub fn served() -> Value {
    let mut named = serve(partitioned());
    named["format"] = json!("raw");
    named
}

fn partitioned() -> Vec<u8> {
    let mut image = vec![0_u8; BYTES];
    // One Linux partition from sector 8 on (MBR).
    image[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 2, 0, 8, 0, 0, 0, 0, 4, 0, 0]);
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    image
}

/// Serves any file from now on, in this thread's namespace; as a host names it.
#[must_use]
pub fn serve(image: Vec<u8>) -> Value {
    let sha256 = hex::encode(digest(&SHA256, &image));
    let listener = TcpListener::bind((ADDRESS, 0)).unwrap();
    let url = format!("http://{}/disk.raw", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", image.len());
            drop((&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(&image)));
        }
    });
    json!({"url": url, "checksum": sha256, "checksumType": "sha256"})
}
