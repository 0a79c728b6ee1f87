//! Virtual media: an ISO image that the BMC fetches and shows to the host as a CD.
//!
//! The slots are below the system, as newer services have them, or below its managers. A slot that
//! takes a CD and is empty is preferred; another image in it is taken out first. Which parameters
//! InsertMedia takes differs, so it is asked with fewer and with others ([`insert_bodies`]) while the
//! answer is 400.

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::address::own_path;
use crate::client::{Client, path_of, seconds};
use crate::error::{Error, plain_text};
use crate::model::{Collection, VirtualMedia};

/// Slots that are looked at: real BMCs have two to four, iDRAC 10 some more.
const SLOTS_MAX: usize = 8;

/// What reading a slot back has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaSet {
    /// It was so already.
    Nothing,
    Confirmed,
    /// Accepted, but the slot says something else: which request, what it answered, how long ago.
    Unverified {
        seen: String,
    },
}

/// A slot and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    path: String,
    media: VirtualMedia,
}

/// Whether a slot takes an ISO image.
#[must_use]
pub fn takes_cd(media: &VirtualMedia) -> bool {
    let types = media.media_types.as_deref().unwrap_or_default();
    types.iter().any(|kind| matches!(kind.as_str(), "CD" | "DVD"))
}

/// Whether nothing is in a slot, as far as it says.
#[must_use]
pub fn is_empty(media: &VirtualMedia) -> bool {
    let has_image = media.image.as_deref().is_some_and(|image| !image.is_empty());
    !media.inserted.unwrap_or(has_image) && !has_image
}

/// What InsertMedia is asked with, in order: as most want it, bare, and with what some insist on.
#[must_use]
pub fn insert_bodies(url: &str) -> Vec<Value> {
    let protocol = if url.starts_with("https:") { "HTTPS" } else { "HTTP" };
    vec![
        json!({"Image": url, "Inserted": true, "WriteProtected": true}),
        json!({"Image": url}),
        json!({"Image": url, "TransferProtocolType": protocol, "TransferMethod": "Stream"}),
    ]
}

/// The slot for an image: one that has it, an empty one, or one to be emptied.
fn choose<'a>(slots: &'a [Slot], url: &str) -> Option<&'a Slot> {
    let fit = || slots.iter().filter(|slot| takes_cd(&slot.media));
    let has_it = |slot: &&Slot| slot.media.image.as_deref() == Some(url) && !is_empty(&slot.media);
    fit().find(has_it).or_else(|| fit().find(|slot| is_empty(&slot.media))).or_else(|| fit().next())
}

impl Client {
    /// Has the BMC show the image at `url` as a CD, in place of any other.
    ///
    /// # Errors
    /// What the BMC cannot do or does not take.
    pub async fn insert_media(&self, url: &str) -> Result<MediaSet, Error> {
        let slots = self.slots().await?;
        let slot = choose(&slots, url)
            .ok_or_else(|| Error::Unsupported { what: "show an image as a CD: it has no such virtual media".into() })?;
        if slot.media.image.as_deref() == Some(url) && !is_empty(&slot.media) {
            return Ok(MediaSet::Nothing);
        }
        if !is_empty(&slot.media) {
            self.eject(slot).await?;
        }
        let target = slot.media.actions.as_ref().and_then(|actions| actions.insert.as_ref());
        let target = target.and_then(|action| action.target.as_deref()).and_then(own_path);
        let sent = match target {
            Some(target) => self.insert_by_action(target, url).await?,
            None => {
                let body = json!({"Image": url, "Inserted": true});
                let answer = self.change(Method::PATCH, &slot.path, &body, None).await?;
                let status = answer.status.as_u16();
                answer.accepted("to insert the image", &slot.path)?;
                format!("PATCH {} was answered {status}", slot.path)
            }
        };
        self.read_media_back(&slot.path, &sent, |media| {
            media.inserted.unwrap_or(true) && media.image.as_deref() == Some(url)
        })
        .await
    }

    /// Takes out every CD image that is in.
    ///
    /// # Errors
    /// What the BMC cannot do or does not take.
    pub async fn eject_media(&self) -> Result<MediaSet, Error> {
        let mut all = MediaSet::Nothing;
        for slot in self.slots().await?.iter().filter(|slot| takes_cd(&slot.media) && !is_empty(&slot.media)) {
            all = self.eject(slot).await?;
            if matches!(all, MediaSet::Unverified { .. }) {
                break;
            }
        }
        Ok(all)
    }

    async fn insert_by_action(&self, target: &str, url: &str) -> Result<String, Error> {
        let mut refused = Error::Unsupported { what: "insert the image".to_owned() };
        for body in insert_bodies(url) {
            let answer = self.change(Method::POST, target, &body, None).await?;
            let status = answer.status.as_u16();
            match answer.accepted("to insert the image", target) {
                Ok(_) => return Ok(format!("POST {target} was answered {status}")),
                Err(error @ Error::Refused { status: 400, .. }) => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    async fn eject(&self, slot: &Slot) -> Result<MediaSet, Error> {
        let target = slot.media.actions.as_ref().and_then(|actions| actions.eject.as_ref());
        let target = target.and_then(|action| action.target.as_deref()).and_then(own_path);
        let (method, path, body) = match target {
            Some(target) => (Method::POST, target, json!({})),
            None => (Method::PATCH, slot.path.as_str(), json!({"Image": null, "Inserted": false})),
        };
        let sent = format!("{method} {path}");
        let answer = self.change(method, path, &body, None).await?;
        let status = answer.status.as_u16();
        answer.accepted("to eject the image", path)?;
        self.read_media_back(&slot.path, &format!("{sent} was answered {status}"), is_empty).await
    }

    async fn read_media_back(
        &self,
        path: &str,
        sent: &str,
        is_done: impl Fn(&VirtualMedia) -> bool,
    ) -> Result<MediaSet, Error> {
        let asked_at = Instant::now();
        loop {
            let media: VirtualMedia = self.get(path).await?.accepted("show its virtual media", path)?.json(path)?;
            if is_done(&media) {
                return Ok(MediaSet::Confirmed);
            }
            let passed = asked_at.elapsed();
            if passed + self.patience.pause > self.patience.read_back {
                let image = plain_text(media.image.as_deref().unwrap_or("none"));
                let inserted = media.inserted.map_or("not said", |is_in| if is_in { "yes" } else { "no" });
                let passed = seconds(passed);
                let seen = format!("{sent}, and {passed} later the slot says image {image}, inserted {inserted}");
                return Ok(MediaSet::Unverified { seen });
            }
            sleep(self.patience.pause).await;
        }
    }

    /// The slots of the system, else those of its managers.
    async fn slots(&self) -> Result<Vec<Slot>, Error> {
        let (system, _) = self.read_system().await?;
        let of_system = self.slots_in(path_of(system.virtual_media.as_ref()).as_slice()).await?;
        if of_system.iter().any(|slot| takes_cd(&slot.media)) {
            return Ok(of_system);
        }
        let managers = self.managers(&system).await?;
        let collections: Vec<String> =
            managers.iter().filter_map(|manager| path_of(manager.virtual_media.as_ref())).collect();
        self.slots_in(&collections).await
    }

    async fn slots_in(&self, collections: &[String]) -> Result<Vec<Slot>, Error> {
        let mut slots = Vec::new();
        for collection in collections {
            let list: Collection = self.get(collection).await?.json_if_there().unwrap_or_default();
            for link in list.members.unwrap_or_default().iter().take(SLOTS_MAX) {
                let Some(path) = path_of(Some(link)) else { continue };
                let media = self.get(&path).await?.json_if_there::<VirtualMedia>();
                slots.extend(media.map(|media| Slot { path, media }));
            }
        }
        Ok(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(path: &str, types: &[&str], image: Option<&str>) -> Slot {
        let media_types = Some(types.iter().map(|kind| (*kind).to_owned()).collect());
        let media = VirtualMedia {
            media_types,
            image: image.map(str::to_owned),
            inserted: Some(image.is_some()),
            ..VirtualMedia::default()
        };
        Slot { path: path.to_owned(), media }
    }

    #[test]
    fn the_slot_is_one_that_has_the_image_or_is_empty_or_may_be_emptied() {
        let chosen = |slots: &[Slot]| choose(slots, "http://a/x.iso").map(|slot| slot.path.clone());
        let floppy = slot("floppy", &["Floppy", "USBStick"], None);
        let other = slot("other", &["CD"], Some("http://a/y.iso"));
        let empty = slot("empty", &["CD", "DVD"], None);
        let same = slot("same", &["DVD"], Some("http://a/x.iso"));
        let all = [floppy.clone(), other.clone(), empty.clone(), same];
        assert_eq!(chosen(&all).as_deref(), Some("same"));
        assert_eq!(chosen(&all[..3]).as_deref(), Some("empty"));
        assert_eq!(chosen(&all[..2]).as_deref(), Some("other"));
        assert_eq!(chosen(&[floppy]), None);
        assert!(!is_empty(&other.media) && is_empty(&empty.media));
    }

    #[test]
    fn the_protocol_is_the_one_of_the_url() {
        assert_eq!(insert_bodies("http://a/x")[2]["TransferProtocolType"], "HTTP");
        assert_eq!(insert_bodies("https://a/x")[2]["TransferProtocolType"], "HTTPS");
    }
}
