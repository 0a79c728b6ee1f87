//! Images that upstream's rules allow and this appliance does not write: they are accepted with a warning, and the host
//! ends in an error before anything is done to a disk.

use crate::bare_metal_host::spec::{Image, ImageFormat};

/// Schemes by which upstream fetches images, and this appliance does not.
pub(crate) const FOREIGN_SCHEMES: [&str; 3] = ["oci", "ftp", "gopher"];

/// The scheme of a URL, in lower case; empty where there is none.
pub(crate) fn scheme(url: &str) -> String {
    url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default()
}

/// The field that asks for something else than writing an image that can be fetched, and why nothing comes of it.
#[must_use]
pub fn unwritable(image: &Image) -> Option<(&'static str, &'static str)> {
    let scheme = scheme(&image.url);
    if scheme == "oci" {
        return Some((
            "spec.image.url",
            "images are not pulled from OCI registries: serve the image by http or https, or import it with `firesteel \
             image import`",
        ));
    }
    if FOREIGN_SCHEMES.contains(&scheme.as_str()) {
        return Some((
            "spec.image.url",
            "images are fetched by http and https alone: serve the image there, or import it with `firesteel image \
             import`",
        ));
    }
    match image.format {
        None | Some(ImageFormat::Raw | ImageFormat::Qcow2) => None,
        Some(ImageFormat::Vdi | ImageFormat::Vmdk) => Some((
            "spec.image.format",
            "images are written from raw and qcow2 alone: convert the image with `qemu-img convert -O qcow2`",
        )),
        Some(ImageFormat::LiveIso) => Some((
            "spec.image.format",
            "a live ISO is booted from virtual media and never written, and none is attached here: name an image of a \
             disk",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_names_its_field() {
        let of = |url: &str, format| {
            let image = Image { url: url.to_owned(), format, ..Image::default() };
            unwritable(&image).map(|(field, _)| field)
        };
        for format in [None, Some(ImageFormat::Raw), Some(ImageFormat::Qcow2)] {
            assert_eq!(of("https://images/a", format), None);
        }
        for format in [ImageFormat::Vdi, ImageFormat::Vmdk, ImageFormat::LiveIso] {
            assert_eq!(of("https://images/a", Some(format)), Some("spec.image.format"), "{format:?}");
        }
        for url in ["oci://registry/a:1", "OCI://registry/a:1", "ftp://images/a", "gopher://images/a"] {
            assert_eq!(of(url, None), Some("spec.image.url"), "{url}");
        }
        assert_eq!(of("store://abc", None), None);
    }
}
