//! What cannot be undone asks first.
