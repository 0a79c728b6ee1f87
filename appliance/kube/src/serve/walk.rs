//! A way through the objects of a kind, page by page.

use firesteel_store::{GroupResource, ListRange, PageRead, Position, Revision, StoredObject};

use crate::model::status::Status;
use crate::object::core::Core;
use crate::object::selection::ListSelection;
use crate::object::{store_errors, stored_object};

/// Objects read from the store at once: few, so that a list of many is not in memory as a whole. With a
/// selector more, since most of them are not what is looked for.
const PAGE: usize = 128;
const SELECTED_PAGE: usize = 500;

/// A way through the objects of a kind, all as of one revision.
#[derive(Clone, Debug)]
pub(crate) struct ListWalk {
    /// The revision of the list; `None` before the first page: the newest.
    at: Option<Revision>,
    after: Option<Position>,
    /// There are objects after that place, or it is not known yet.
    more: bool,
}

impl ListWalk {
    pub(crate) fn new(at: Option<Revision>, after: Option<Position>) -> Self {
        Self { at, after, more: true }
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.more
    }

    pub(crate) fn revision(&self) -> Option<Revision> {
        self.at
    }

    /// The place after which it goes on.
    pub(crate) fn place(&self) -> Option<Position> {
        self.after.clone()
    }

    /// The next objects that match, at most `most`. There may be none of many: see [`ListWalk::is_over`].
    pub(crate) async fn page(
        &mut self,
        core: &Core,
        selection: &ListSelection,
        most: usize,
    ) -> Result<Vec<StoredObject>, Status> {
        let kind = &selection.kind;
        // Without a selector each object read is one found: no more than are missing are read.
        let count = if selection.selector.is_empty() { PAGE.min(most) } else { SELECTED_PAGE };
        let resource = kind.stored_resource();
        let read = core.store().page_with_damaged(self.rest(&resource, selection), count).await;
        let PageRead { page, damaged, last } = read.map_err(store_errors::read_failed)?;
        if damaged.iter().any(|damage| selection.may_be(&damage.key))
            && let Some(refusal) = selection.refusal(core, damaged)
        {
            return Err(refusal);
        }
        self.at = Some(page.revision);
        let mut unread = page.items.len();
        let mut found = Vec::with_capacity(unread.min(most));
        for object in page.items {
            unread -= 1;
            let matches = stored_object::matches(kind, &selection.selector, &object)?;
            let is_last = matches && found.len() + 1 == most;
            if is_last {
                self.after = Some(object.key.position());
            }
            if matches {
                found.push(object);
            }
            if is_last {
                break;
            }
        }
        if unread == 0 && last.is_some() {
            self.after = last;
        }
        self.more = page.remaining > 0 || unread > 0;
        Ok(found)
    }

    /// How many objects there are after the place where it stands, matching or not.
    pub(crate) async fn count(&self, core: &Core, selection: &ListSelection) -> Result<u64, Status> {
        let resource = selection.kind.stored_resource();
        core.store().count(self.rest(&resource, selection)).await.map_err(store_errors::read_failed)
    }

    fn rest<'a>(&'a self, kind: &'a GroupResource, selection: &'a ListSelection) -> ListRange<'a> {
        ListRange { kind, namespace: selection.namespace(), at: self.at, after: self.after.as_ref() }
    }
}
