//! `firesteel apply` and `firesteel diff` give what kubectl gives for the same file.
