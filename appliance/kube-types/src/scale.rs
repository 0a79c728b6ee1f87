//! Where the numbers of a kind that can be scaled are.

/// Names the fields of an object that its `scale` subresource shows, as in `.spec.replicas`.
#[derive(Clone, Copy, Debug)]
pub struct ScaleSubresource {
    pub spec_replicas: &'static str,
    pub status_replicas: &'static str,
    /// A label selector as text; empty where the kind has none.
    pub label_selector: &'static str,
}
