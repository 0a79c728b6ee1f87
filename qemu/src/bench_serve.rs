//! `lab bench serve`: many clients fetch one image from the appliance and from Debian's nginx, in turns, over HTTP and
//! over TLS. Both have the same bytes, warm; clients and servers share the machine, so figures are compared within one
//! run. What is not reached is said, and makes the command fail.
//!
//! ```text
//! image ─► import ─► /images/DIGEST.raw.zst ─► 64 × curl, a range each ─┐
//!                └─ the same bytes ─► nginx ─► 64 × curl, a range each ─┴─► medians, ratios, limits
//! ```

mod figures;
mod load;
mod nginx;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use figures::{BenchLimits, Figure, FigurePair};
use firesteel_lab_image::noise;
use load::Load;
use nginx::Nginx;
use serde_json::Value;
use tokio::process::Command;

use crate::lab::{Lab, LabConfig};
use crate::net::APPLIANCE_ADDRESS;
use crate::progress::{ProgressStep, print, print_status};

/// Where the appliance serves images, plain and over TLS.
const PLAIN_PORT: u16 = 8080;
const TLS_PORT: u16 = 8443;
const MIB: u64 = 1 << 20;
/// The largest image that is asked for, at a few MiB each second.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug, clap::Args)]
pub struct ServeOptions {
    /// A script that fetches and prints what it measured, called as SCRIPT LABEL URL 1 CLIENTS SERVER_PID
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Clients at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=512))]
    clients: u16,
    /// Runs of each server, in turns; medians are printed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Size of the image; each client fetches its first 128 MiB
    #[arg(long, default_value_t = 1024, value_name = "MIB", value_parser = clap::value_parser!(u64).range(256..=16_384))]
    image: u64,
}

/// One server at one address.
struct BenchTarget {
    label: &'static str,
    url: String,
    server: u32,
}

pub async fn serve(config: LabConfig, options: &ServeOptions) -> anyhow::Result<()> {
    let load = Load::new(options.script.as_deref(), options.clients)?;
    let lab = Lab::start(config.clone()).await?;
    let measured = measure(&lab, &config, options, &load).await;
    lab.stop().await;
    let (plain, tls) = measured?;
    print(&figures::table(&plain, &tls));
    ensure!(figures::is_reached(&plain, &tls), "a figure is not within its limit: see MISSED above");
    Ok(())
}

async fn measure(
    lab: &Lab,
    config: &LabConfig,
    options: &ServeOptions,
    load: &Load,
) -> anyhow::Result<(FigurePair, Option<FigurePair>)> {
    let step = ProgressStep::begin("importing an image");
    let path = import(lab, options.image).await?;
    step.end();
    let url = |scheme: &str, port: u16| format!("{scheme}://{APPLIANCE_ADDRESS}:{port}{path}");
    let root = config.folder.join("www");
    fs::create_dir_all(&root).context("making a folder for nginx")?;
    // Both serve from memory what the one has stored.
    fetch(&url("http", PLAIN_PORT), &root.join("image")).await?;
    let nginx = Nginx::start(&config.tools, &config.folder, &root, APPLIANCE_ADDRESS).await?;
    let server = lab.appliance.id().context("the appliance has ended")?;
    let own = |scheme: &str, port: u16| BenchTarget { label: "firesteel", url: url(scheme, port), server };
    let peer = |url: &str| BenchTarget { label: "nginx", url: url.to_owned(), server: nginx.id() };

    let plain = in_turns(load, options.rounds, &own("http", PLAIN_PORT), &peer(&nginx.plain)).await?;
    let plain = FigurePair::new("HTTP", plain, BenchLimits { throughput_min: 0.9, cpu_max: Some(1.5) })?;
    let tls = own("https", TLS_PORT);
    if !answers(&tls.url).await? {
        print_status(&format!("the appliance serves no image at {}", tls.url));
        return Ok((plain, None));
    }
    let tls = in_turns(load, options.rounds, &tls, &peer(&nginx.tls)).await?;
    let tls = FigurePair::new("TLS", tls, BenchLimits { throughput_min: 1.0, cpu_max: None })?;
    Ok((plain, Some(tls)))
}

/// Each server once, and again.
async fn in_turns(load: &Load, rounds: u8, own: &BenchTarget, peer: &BenchTarget) -> anyhow::Result<[Vec<Figure>; 2]> {
    let mut figures = [Vec::new(), Vec::new()];
    for round in 1..=rounds {
        for (target, figures) in [own, peer].into_iter().zip(&mut figures) {
            let figure = load.run(target.label, &target.url, target.server).await?;
            print_status(&format!("{round} of {rounds}: {} {}: {figure}", target.label, scheme(&target.url)));
            figures.push(figure);
        }
    }
    Ok(figures)
}

fn scheme(url: &str) -> &str {
    url.split("://").next().unwrap_or_default()
}

/// Makes an image that nothing makes smaller and has the appliance import it. Its path on the appliance's ports.
async fn import(lab: &Lab, mib: u64) -> anyhow::Result<String> {
    let file = lab.folder().join("image.raw");
    let written = {
        let file = file.clone();
        tokio::task::spawn_blocking(move || write_image(&file, mib))
    };
    written.await.context("writing an image")??;
    let data = lab.appliance.data();
    let (file_text, data_text) = (file.to_string_lossy(), data.to_string_lossy());
    let arguments = ["image", "import", &file_text, "--data", &data_text];
    lab.appliance.cli_within(&arguments, IMPORT_TIMEOUT).await?;
    let listed = lab.appliance.cli(&["image", "ls", "--data", &data_text, "-o", "json"]).await?;
    fs::remove_file(&file).context("removing the image that was imported")?;
    path_of(&serde_json::from_str(&listed).context("reading the list of images")?)
}

fn path_of(images: &Value) -> anyhow::Result<String> {
    let digest = images[0]["streamSha256"].as_str();
    Ok(format!("/images/{}.raw.zst", digest.context("the list of images does not name the digest")?))
}

fn write_image(path: &Path, mib: u64) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut file = std::io::BufWriter::new(fs::File::create(path).context("making an image")?);
    let mut state = mib;
    for number in 0..mib {
        let mut piece = noise(&mut state);
        ensure!(piece.len() as u64 == MIB, "a piece of an image is no MiB");
        if number == 0 {
            // A boot sector: bytes that mean nothing are no image.
            piece[510..512].copy_from_slice(&[0x55, 0xaa]);
        }
        file.write_all(&piece).context("writing an image")?;
    }
    file.flush().context("writing an image")
}

async fn fetch(url: &str, to: &Path) -> anyhow::Result<()> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--output"]).arg(to).arg(url).stdin(Stdio::null());
    let output = curl.kill_on_drop(true).output().await.context("running curl")?;
    ensure!(output.status.success(), "fetching {url}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Whether an image is to be had there.
async fn answers(url: &str) -> anyhow::Result<bool> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--insecure", "--fail", "--head", "--output", "/dev/null"]).arg(url).stdin(Stdio::null());
    Ok(curl.kill_on_drop(true).status().await.context("running curl")?.success())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_image_is_found_by_its_digest() {
        assert_eq!(path_of(&json!([{"streamSha256": "ab"}])).unwrap(), "/images/ab.raw.zst");
        assert!(path_of(&json!([])).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        write_image(file.path(), 2).unwrap();
        assert_eq!(file.path().metadata().unwrap().len(), 2 * MIB);
    }
}
