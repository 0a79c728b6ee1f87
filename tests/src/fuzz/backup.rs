//! Files that are said to be backups, and marks of disks that anybody may have written.

use firesteel_appliance::backup::format::{self, BackupHeader};
use firesteel_plan::InstallationMark;
use ring::digest;

/// The input is a file; and its text the GUID of a disk.
pub(super) fn check(input: &[u8]) {
    format::check(input);
    if let Ok(text) = std::str::from_utf8(input)
        && let Some(mark) = InstallationMark::parse(text)
    {
        assert_eq!(InstallationMark::parse(&mark.guid(0)), Some(mark), "{text}");
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let whole = |database: &[u8], said: u64| {
        let header = BackupHeader { revision: 9, database_bytes: said, ..BackupHeader::default() };
        let mut bytes = format::begin(&header).unwrap();
        bytes.extend(database);
        let end = format::end(&digest::digest(&digest::SHA256, &bytes));
        bytes.extend(end);
        bytes
    };
    let good = whole(b"objects", 7);
    vec![
        good[..good.len() - 3].to_vec(),
        [good.as_slice(), b"x"].concat(),
        good,
        whole(b"objects", 8),
        whole(b"", u64::MAX),
        b"firesteel backup 2\n".to_vec(),
        b"firesteel backup 1\n{\"databaseBytes\":-1}\n".to_vec(),
        InstallationMark { store: 1, timeline: 2, revision: 3 }.guid(4).into_bytes(),
        b"6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f".to_vec(),
    ]
}
