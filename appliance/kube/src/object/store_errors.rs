//! What the store refuses or cannot do, in the API's words.

use firesteel_store::{CommitError, Revision, StoreReadError, WatchError};

use crate::{model::status::Status, object::terms::ObjectTarget};

pub(crate) fn commit_failed(target: ObjectTarget<'_>, error: CommitError) -> Status {
    match error {
        CommitError::NotFound { .. } => Status::not_found(target.kind, target.name),
        CommitError::Exists { .. } => Status::already_exists(target.kind, target.name),
        CommitError::Conflict { .. } | CommitError::Guard { .. } => Status::modified(target.kind, target.name),
        CommitError::Exceeds { exceeded, .. } => Status::exceeded_quota(target.kind, target.name, &exceeded),
        CommitError::TooLarge { .. } => Status::too_large(firesteel_store::OBJECT_BYTES_MAX),
        // The store's room writes the event: a client that tries again and again must not fill the log.
        CommitError::Full(_) => Status::insufficient_storage(error.to_string()),
        CommitError::Database(_) => {
            tracing::error!(error = %error, "cannot store an object");
            Status::unavailable(error.to_string())
        }
        CommitError::Damaged(_) => {
            tracing::error!(error = %error, "cannot store an object");
            Status::unreadable(error.to_string())
        }
        CommitError::Closed => Status::internal(error.to_string()),
    }
}

pub(crate) fn read_failed(error: StoreReadError) -> Status {
    match error {
        StoreReadError::Compacted { oldest } => expired(oldest),
        // The store has said so in the log when it found it.
        StoreReadError::Damaged(damages) => Status::damaged(&damages),
        StoreReadError::Broken { .. } => {
            Status::unreadable(format!("{error}; stop the appliance and restore a backup"))
        }
        StoreReadError::Structure(_) => Status::unreadable(error.to_string()),
        StoreReadError::Future { .. } | StoreReadError::Database(_) | StoreReadError::Closed => {
            tracing::error!(error = %error, "cannot read the store");
            Status::internal(error.to_string())
        }
    }
}

pub(crate) fn watch_failed(error: WatchError) -> Status {
    match error {
        WatchError::Compacted { oldest } => expired(oldest),
        // A client that lists again is a client that has caught up.
        WatchError::Lagged => Status::expired("the watch was too slow and was cut off"),
        // What stands now may be sound; where it is not, the list says so.
        WatchError::Damaged(_) => Status::expired(format!("{error}; list again")),
        WatchError::Database(_) | WatchError::Closed => Status::internal(error.to_string()),
    }
}

fn expired(oldest: Revision) -> Status {
    Status::expired(format!("The resourceVersion for the provided request is too old; the oldest one is {oldest}."))
}
