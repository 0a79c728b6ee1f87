//! What control asks of the config server when it composes a hand-over. The config server answers, and control knows it
//! by this alone.

use std::{future::Future, pin::Pin};

use firesteel_kube::Status;
use firesteel_wire::hand_off::KernelArgumentEdit;

use crate::HostKey;

/// An answer that may have to be read from the store.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The configs that are served to hosts.
pub trait ServedConfigs: Send + Sync {
    /// Checks whether every config that a host's user data names can be known now. What does not exist may be made
    /// before it is fetched.
    fn check<'a>(&'a self, key: &'a HostKey, names: &'a [String]) -> Pending<'a, Result<(), ConfigsNotReady>>;

    /// Returns what these configs ask of the kernel's command line, as far as they are there.
    fn kernel_arguments<'a>(
        &'a self,
        namespace: &'a str,
        names: &'a [String],
    ) -> Pending<'a, Result<KernelArgumentEdit, Status>>;
}

/// Why it is not known now what a host's configs ask for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigsNotReady {
    #[error("the pools were not read yet: trying again")]
    PoolsNotRead,
    /// The config would be refused, in the words that the host would get.
    #[error("{0}: trying again")]
    Refused(String),
}
