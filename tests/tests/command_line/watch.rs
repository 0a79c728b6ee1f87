//! `firesteel watch` shows a whole fleet.
