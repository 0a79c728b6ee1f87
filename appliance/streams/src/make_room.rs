//! Making room for what comes: what objects refer to is read, and the rest may go.

use firesteel_kube::{Objects, Status};
use firesteel_resources::HostGroup;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::depot::{DepotError, Doing, InUse, Referrers};
use crate::{StreamController, references};

impl StreamController {
    /// Makes room for so many bytes, and keeps to the quota. What comes back is why there is not enough.
    ///
    /// # Errors
    /// When objects or the store of images cannot be read: then nothing is removed.
    pub fn make_room(&self, coming_bytes: u64) -> BoxFuture<'_, Result<Option<String>, DepotError>> {
        Box::pin(async move {
            let _one_at_a_time = self.inner.room.lock().await;
            let config = &self.inner.config;
            let made = config.depot.make_room(self, config.quota_bytes, coming_bytes).await?;
            if made.bytes > 0 {
                let images = made.images.len();
                tracing::info!(images, bytes = made.bytes, "unused images were removed from the image store");
            }
            // Who knows that they were there must look again.
            (config.forget)(&made.images);
            Ok(made.shortfall)
        })
    }

    /// Everything that any object refers to. One that cannot be read keeps all that it may name.
    ///
    /// # Errors
    /// When the store fails.
    pub fn in_use(&self) -> BoxFuture<'_, Result<InUse, Status>> {
        Box::pin(async move {
            let mut found = InUse::default();
            for objects in &self.inner.namers {
                for object in all(objects).await? {
                    found.add(references::of_object(&object));
                }
            }
            let mut groups: Vec<HostGroup> = Vec::new();
            for object in all(&self.inner.groups).await? {
                match serde_json::from_value(object.clone()) {
                    Ok(group) => groups.push(group),
                    Err(error) => {
                        tracing::warn!(%error, "a stored group cannot be read: all that it names stays");
                        found.add(references::of_object(&object));
                    }
                }
            }
            groups.iter().for_each(|group| found.add(references::of_group(group)));
            let (streams, _) = self.inner.streams.list(None).await?;
            streams.iter().for_each(|stream| found.add(references::of_stream(stream, &groups)));
            Ok(found)
        })
    }
}

impl Referrers for StreamController {
    fn in_use(&self) -> Doing<'_, Result<InUse, DepotError>> {
        let read = StreamController::in_use(self);
        Box::pin(async move { read.await.map_err(|status| DepotError::Objects(status.message)) })
    }
}

async fn all(objects: &Objects<Value>) -> Result<Vec<Value>, Status> {
    Ok(objects.list(None).await?.0)
}
