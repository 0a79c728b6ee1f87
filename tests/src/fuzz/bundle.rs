//! Offline bundles: archives that come by hand, from whoever carries them.

use firesteel_facts::Sha256;
use firesteel_images::bundle;

pub(super) fn check(input: &[u8]) {
    bundle::check(input);
    // A fuzzer does not guess the sum of a header.
    let mut summed = input.to_vec();
    sum_up(&mut summed);
    bundle::check(&summed);
}

/// Makes the sum of each header right, as far as the sizes lead to one.
fn sum_up(archive: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = archive.get_mut(at..at + 512) {
        // The end has none.
        if header.iter().all(|byte| *byte == 0) {
            return;
        }
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = std::str::from_utf8(&header[124..135]).ok().and_then(|digits| usize::from_str_radix(digits, 8).ok());
        let Some(size) = size else { return };
        at += 512 + size.min(1 << 20).next_multiple_of(512);
    }
}

fn entry(name: &str, kind: u8, data: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..108].copy_from_slice(b"0000644\0");
    block[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    block.extend_from_slice(data);
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

fn archive(entries: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut bytes: Vec<u8> = entries.iter().flat_map(|(name, kind, data)| entry(name, *kind, data)).collect();
    bytes.extend_from_slice(&[0; 1024]);
    sum_up(&mut bytes);
    bytes
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let raw = vec![7; 1024];
    let stream = zstd::encode_all(&raw[..], 3).unwrap();
    let (document, kernel) = (br#"{"stream":"stable","architectures":{}}"#, b"MZ kernel");
    let [raw_digest, stream_digest, document_digest, kernel_digest] =
        [&raw[..], &stream, document, kernel].map(|bytes| Sha256::of(bytes).to_string());
    let source = format!(
        r#"{{"url":"https://example.com/a","formats":["gzip","raw"],"bytes":9,"sha256":"{raw_digest}","release":"44.1","witness":"bundle"}}"#
    );
    let manifest = format!(
        r#"{{"format":1,"streams":[{{"name":"stable","sha256":"{document_digest}","bytes":{}}}],"images":[{{"raw_sha256":"{raw_digest}","raw_bytes":1024,"stream_sha256":"{stream_digest}","stream_bytes":{},"sources":[{source}]}}],"files":[{{"sha256":"{kernel_digest}","bytes":{},"role":"kernel","sources":[]}}]}}"#,
        document.len(),
        stream.len(),
        kernel.len(),
    );
    let head = ("manifest.json", b'0', manifest.as_bytes());
    let blobs = [
        (document_digest.as_str(), b'0', &document[..]),
        (stream_digest.as_str(), b'0', &stream[..]),
        (kernel_digest.as_str(), b'0', &kernel[..]),
    ];
    vec![
        archive(&[head, blobs[0], blobs[1], blobs[2]]),
        archive(&[head, blobs[0], (&stream_digest, b'2', b""), blobs[2]]),
        archive(&[head, blobs[0], ("././@LongLink", b'L', b"../../etc/passwd"), blobs[1]]),
        archive(&[head, blobs[1], blobs[0]]),
        archive(&[("manifest.json", b'0', b"{}")]),
        archive(&[head, blobs[0], blobs[1]])[..3000].to_vec(),
        manifest.into_bytes(),
    ]
}
