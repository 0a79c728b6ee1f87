//! The verbs that people know from kubectl, and the tables that they print.
