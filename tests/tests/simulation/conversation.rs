//! One host, told line by line: what it is asked, what it is told, what is on record.
