//! What an appliance sees of a boot, in any order: who asks, what is sent, who says hello. A plain model beside it says
//! what must never be: a token for who is not the host, a hello that counts before all bytes were sent.

use std::{collections::HashMap, net::IpAddr};

use firesteel_boot::observation::{Coverage, GRANTS_MAX};
use firesteel_boot::{
    AddressHolder, AskerRule, BootAsker, BootFile, BootFileName, BootFileSet, BootScriptRequest, BootSeal, Observation,
    ServedBootFiles,
};
use firesteel_facts::{Mac, Sha256};

const KERNEL_BYTES: u64 = 48;
const INITRAMFS_BYTES: u64 = 96;
const FILES: BootFileSet = BootFileSet {
    kernel: BootFile { sha256: Sha256([1; 32]), bytes: KERNEL_BYTES },
    initramfs: BootFile { sha256: Sha256([2; 32]), bytes: INITRAMFS_BYTES },
    agent: Some(Sha256([3; 32])),
};
const SERVED: ServedBootFiles = ServedBootFiles { current: FILES, kept: None };
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 9]);

/// What was sent for one token.
struct Sent {
    kernel: [bool; KERNEL_BYTES as usize],
    initramfs: [bool; INITRAMFS_BYTES as usize],
}

impl Default for Sent {
    fn default() -> Self {
        Self { kernel: [false; KERNEL_BYTES as usize], initramfs: [false; INITRAMFS_BYTES as usize] }
    }
}

/// Events of four bytes each: which one, and three numbers.
pub(super) fn check(input: &[u8]) {
    let (mut boot, mut model) = (Observation::of(1), HashMap::<u64, Sent>::new());
    let mut first: Option<IpAddr> = None;
    for event in input.chunks_exact(4).map(|event| [event[0], event[1], event[2], event[3]]) {
        match event[0] % 4 {
            0 => ask(&mut boot, &mut first, event),
            1 => {
                let before = boot.grants();
                let grant = boot.grant(event[1].into());
                assert!(boot.grants() <= GRANTS_MAX && boot.grants() >= before.min(GRANTS_MAX));
                model.entry(grant).or_default();
            }
            2 => send(&mut boot, &mut model, event),
            _ => hello(&boot, &model, event),
        }
    }
}

fn ask(boot: &mut Observation, first: &mut Option<IpAddr>, [_, holder, rule, from]: [u8; 4]) {
    let from = IpAddr::from([10, 77, 0, from % 4]);
    let holder = match holder % 3 {
        0 => AddressHolder::Host,
        1 => AddressHolder::Other(OTHER),
        _ => AddressHolder::Unleased,
    };
    let rule = if rule % 2 == 0 { AskerRule::Lease } else { AskerRule::FirstAsker };
    let judged = boot.ask(&BootScriptRequest { from, holder, rule, leased: Vec::new() });
    match judged {
        Ok(BootAsker::Leased(address)) => assert!(holder == AddressHolder::Host && address == from),
        Ok(BootAsker::First(address)) => {
            assert!(rule == AskerRule::FirstAsker && address == from && *first.get_or_insert(from) == from);
        }
        Err(mismatch) => {
            assert!(holder != AddressHolder::Host && mismatch.from() == from);
            assert!(rule == AskerRule::Lease || first.is_some_and(|first| first != from));
        }
    }
}

fn send(boot: &mut Observation, model: &mut HashMap<u64, Sent>, [_, which, start, length]: [u8; 4]) {
    let (file, grant) =
        if which % 2 == 0 { (BootFileName::Kernel, which / 2) } else { (BootFileName::Initramfs, which / 2) };
    let (grant, start, length) = (u64::from(grant % 8), u64::from(start), u64::from(length));
    boot.sent(grant, file, start..start + length, &FILES);
    let sent = model.entry(grant).or_default();
    let table: &mut [bool] = match file {
        BootFileName::Kernel => &mut sent.kernel,
        BootFileName::Initramfs => &mut sent.initramfs,
    };
    let place = |at: u64| usize::try_from(at).unwrap().min(table.len());
    let range = place(start)..place(start + length);
    table[range].fill(true);
}

fn hello(boot: &Observation, model: &HashMap<u64, Sent>, [_, grant, agent, seal]: [u8; 4]) {
    let grant = u64::from(grant % 8);
    let other = Sha256([9; 32]);
    let mut sealed = BootSeal {
        grant,
        asker: BootAsker::First([10, 77, 0, 1].into()),
        kernel: FILES.kernel.sha256,
        initramfs: FILES.initramfs.sha256,
        agent: FILES.agent,
    };
    if seal % 5 == 1 {
        sealed.kernel = other;
    }
    let said = match agent % 3 {
        0 => None,
        1 => FILES.agent,
        _ => Some(other),
    };
    let whole = model.get(&grant).is_some_and(|sent| sent.kernel.iter().chain(&sent.initramfs).all(|byte| *byte));
    match boot.hello(Some(&sealed).filter(|_| seal % 5 != 2), &SERVED, said) {
        Ok(()) => assert!(whole && said != Some(other) && sealed.kernel != other && seal % 5 != 2),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    let mut coverage = Coverage::default();
    coverage.add(0..u64::from(seal));
    assert!(coverage.is_whole(seal.into()) && !coverage.is_whole(u64::from(seal) + 1));
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let whole = [[0, 0, 0, 1], [1, 3, 0, 0], [2, 6, 0, 48], [2, 7, 0, 96], [3, 3, 1, 0]].concat();
    let ranges = [[1, 3, 0, 0], [2, 6, 40, 8], [2, 6, 0, 44], [2, 7, 50, 46], [2, 7, 0, 60], [3, 3, 0, 0]].concat();
    let foreign = [[0, 1, 0, 1], [0, 2, 1, 1], [0, 2, 1, 2], [0, 0, 1, 2], [3, 3, 2, 1]].concat();
    vec![whole, ranges, foreign]
}
