//! `firesteel image ls`: images that are stored or being fetched, with state, size, digests, origin and users.

use std::path::Path;

use firesteel_facts::Sha256;
use firesteel_images::import::{FileMeta, ImageMeta, ImageStore, Unfinished};
use firesteel_resources::HostGroup;
use firesteel_streams::{InUse, references};
use serde::Serialize;
use serde_json::Value;

use crate::format::camel_case_keys;
use crate::table::{self, TableRow, TextTable, bytes, clean};
use crate::{ApiClient, ConnectionOptions, OutputFormat, print_text};
use firesteel_appliance::image_depot::is_named;

/// The collections whose objects name images, and the words for them.
const USERS: [(&str, &str); 6] = [
    ("host", "/apis/metal3.io/v1alpha1/baremetalhosts"),
    ("network", "/apis/metal3.io/v1alpha1/provisionings"),
    ("group", "/apis/firesteel.dev/v1alpha1/hostgroups"),
    ("stream", "/apis/firesteel.dev/v1alpha1/bootimagestreams"),
    ("set", "/apis/machine.openshift.io/v1beta1/machinesets"),
    ("set", "/apis/cluster.x-k8s.io/v1beta2/machinesets"),
];
/// How many users a line names; the others are counted.
const NAMED_MAX: usize = 2;

/// An object that uses images, and the images that it names.
struct ImageUser {
    name: String,
    of: InUse,
}

/// An image of the list.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum ImageListItem<'a> {
    Image {
        #[serde(flatten)]
        meta: &'a ImageMeta,
        used_by: Option<Vec<String>>,
    },
    File {
        #[serde(flatten)]
        meta: &'a FileMeta,
        used_by: Option<Vec<String>>,
    },
    Download {
        sha256: Sha256,
        bytes: u64,
        total_bytes: Option<u64>,
        is_underway: bool,
        used_by: Option<Vec<String>>,
    },
}

/// # Errors
/// When the store cannot be read.
pub(super) async fn run(
    connection: &ConnectionOptions,
    store: &ImageStore,
    data: &Path,
    output: &OutputFormat,
) -> anyhow::Result<()> {
    let (images, files) = (store.list()?, store.files()?);
    let unfinished = store.unfinished()?;
    let users = users(connection, data).await;
    let by = |is_used: &dyn Fn(&InUse) -> bool| {
        let users = users.as_ref().ok()?;
        Some(users.iter().filter(|user| is_used(&user.of)).map(|user| user.name.clone()).collect::<Vec<_>>())
    };
    let of_image = |meta: &ImageMeta, used: &InUse| {
        let of_sources = meta.sources.iter().flat_map(|source| [Some(source.sha256), source.uncompressed_sha256]);
        let mut digests = of_sources.flatten().chain([meta.raw_sha256, meta.stream_sha256]);
        digests.any(|digest| used.digests.contains(&digest)) || used.images.iter().any(|name| is_named(meta, name))
    };
    let mut items = Vec::new();
    for image in &images {
        items.push(ImageListItem::Image { meta: &image.meta, used_by: by(&|used| of_image(&image.meta, used)) });
    }
    for file in &files {
        items.push(ImageListItem::File {
            meta: &file.meta,
            used_by: by(&|used| used.digests.contains(&file.meta.sha256)),
        });
    }
    for Unfinished { sha256, bytes, total_bytes, is_underway } in unfinished {
        let used_by = by(&|used| used.digests.contains(&sha256));
        items.push(ImageListItem::Download { sha256, bytes, total_bytes, is_underway, used_by });
    }
    if !output.is_table() {
        let value = camel_case_keys(serde_json::to_value(&items)?);
        print_text(&output.text_of(&value)?.unwrap_or_default());
        return Ok(());
    }
    if items.is_empty() {
        print_text("no images; a stream or a host's spec.image brings one in, and so does `firesteel image import`\n");
        return Ok(());
    }
    // Where an image came from is nothing that is wrong.
    let rows = items.iter().map(|item| TableRow::new(row(item), true)).collect();
    let header = vec!["DIGEST", "STATE", "SIZE", "STORED", "USED BY", "SOURCE"];
    let mut text = TextTable { header, rows, expendable: &[] }.render(table::output_width());
    if let Err(error) = users {
        text += &format!("could not find out who uses the images: {}\n", clean(&format!("{error:#}")));
    }
    print_text(&text);
    Ok(())
}

/// The columns: digest, state, size, bytes on disk, users and origin.
fn row(item: &ImageListItem<'_>) -> Vec<String> {
    let short = |digest: &Sha256| digest.to_string().chars().take(12).collect::<String>();
    match item {
        ImageListItem::Image { meta, used_by } => {
            let state = if meta.is_seen_here() { "image" } else { "image, by a bundle" };
            let source = meta.sources.last().map(|source| clean(&source.url)).unwrap_or_default();
            let sizes = [bytes(meta.raw_bytes), bytes(meta.stream_bytes)];
            line(short(&meta.raw_sha256), state.to_owned(), sizes, used_by.as_deref(), source)
        }
        ImageListItem::File { meta, used_by } => {
            let role = serde_json::to_value(meta.role).ok().and_then(|role| role.as_str().map(str::to_owned));
            let state = role.unwrap_or_default();
            let source = meta.sources.last().map(|source| clean(&source.url)).unwrap_or_default();
            let source = if meta.name.is_empty() { source } else { format!("metadata of {}", clean(&meta.name)) };
            line(short(&meta.sha256), state, [bytes(meta.bytes), bytes(meta.bytes)], used_by.as_deref(), source)
        }
        ImageListItem::Download { sha256, bytes: done, total_bytes, is_underway, used_by } => {
            let percent = total_bytes.filter(|total| *total > 0).map(|total| done.saturating_mul(100) / total);
            let percent = percent.map_or_else(String::new, |percent| format!(" {percent}%"));
            let state = if *is_underway { "downloading" } else { "waiting" };
            let total = total_bytes.map_or_else(|| "?".to_owned(), bytes);
            line(short(sha256), format!("{state}{percent}"), [total, bytes(*done)], used_by.as_deref(), String::new())
        }
    }
}

fn line(digest: String, state: String, sizes: [String; 2], users: Option<&[String]>, source: String) -> Vec<String> {
    let [size, stored] = sizes;
    vec![digest, state, size, stored, used(users), source]
}

fn used(users: Option<&[String]>) -> String {
    let Some(users) = users else { return "?".to_owned() };
    let mut words: Vec<String> = users.iter().take(NAMED_MAX).map(|name| clean(name)).collect();
    match users.len().saturating_sub(NAMED_MAX) {
        0 if words.is_empty() => return "-".to_owned(),
        0 => {}
        more => words.push(format!("{more} more")),
    }
    words.join(", ")
}

/// Asks the appliance that runs on this folder which objects name images.
async fn users(connection: &ConnectionOptions, data: &Path) -> anyhow::Result<Vec<ImageUser>> {
    let own = data.join("admin.kubeconfig");
    let kubeconfig = connection.kubeconfig.clone().unwrap_or(own);
    let client = ApiClient::open(&ConnectionOptions { kubeconfig: Some(kubeconfig), ..connection.clone() })?;
    let mut lists = Vec::new();
    for (what, path) in USERS {
        let list = client.get(path).await?;
        lists.push((what, list["items"].as_array().cloned().unwrap_or_default()));
    }
    let groups: Vec<HostGroup> =
        of_kind(&lists, "group").filter_map(|group| serde_json::from_value(group.clone()).ok()).collect();
    let mut users = Vec::new();
    for (what, objects) in &lists {
        for object in objects {
            let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
            let place = [text("namespace"), text("name")].into_iter().filter(|part| !part.is_empty());
            let name = format!("{what} {}", place.collect::<Vec<_>>().join("/"));
            let of = match *what {
                "group" => serde_json::from_value(object.clone()).map(|group| references::of_group(&group)),
                "stream" => {
                    serde_json::from_value(object.clone()).map(|stream| references::of_stream(&stream, &groups))
                }
                _ => Ok(references::of_object(object)),
            };
            // An object that cannot be read keeps every image that its text names.
            users.push(ImageUser { name, of: of.unwrap_or_else(|_| references::of_object(object)) });
        }
    }
    Ok(users)
}

fn of_kind<'a>(lists: &'a [(&str, Vec<Value>)], wanted: &'a str) -> impl Iterator<Item = &'a Value> {
    lists.iter().filter(move |(what, _)| *what == wanted).flat_map(|(_, objects)| objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_tells_how_far_it_is_and_users_are_named_as_far_as_they_fit() {
        let users: Vec<String> = (0..4).map(|number| format!("host default/n{number}")).collect();
        let download = ImageListItem::Download {
            sha256: Sha256::of(b"x"),
            bytes: 43 << 20,
            total_bytes: Some(100 << 20),
            is_underway: true,
            used_by: Some(users),
        };
        let cells = row(&download);
        assert_eq!(cells[1], "downloading 43%");
        assert_eq!(cells[4], "host default/n0, host default/n1, 2 more");
        assert_eq!((used(None), used(Some(&[]))), ("?".to_owned(), "-".to_owned()));
    }
}
