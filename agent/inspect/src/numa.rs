//! NUMA nodes (Documentation/ABI/stable/sysfs-devices-node).

use std::path::Path;

use firesteel_sysfs::{Roots, attribute, names, text};
use firesteel_wire::{limits::NUMA_NODES_MAX, parts::NumaNode};

/// The nodes by number, and a note where some were left out.
#[must_use]
pub fn read(roots: &Roots) -> (Vec<NumaNode>, Option<String>) {
    let folder = roots.sys.join("devices/system/node");
    let mut ids: Vec<u32> = names(&folder).iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    ids.sort_unstable();
    let total = ids.len();
    ids.truncate(NUMA_NODES_MAX);
    let note =
        (total > NUMA_NODES_MAX).then(|| format!("{total} NUMA nodes, of which the first {NUMA_NODES_MAX} are listed"));
    (ids.into_iter().map(|id| node(&folder.join(format!("node{id}")), id)).collect(), note)
}

fn node(folder: &Path, id: u32) -> NumaNode {
    let distances = attribute(&folder.join("distance"));
    NumaNode {
        id,
        cpus: attribute(&folder.join("cpulist")),
        memory_mib: total_mib(&text(&folder.join("meminfo"))),
        distances: distances.split(' ').filter_map(|distance| distance.parse().ok()).take(NUMA_NODES_MAX).collect(),
    }
}

/// `Node 0 MemTotal:       32542668 kB` in MiB.
#[must_use]
pub fn total_mib(meminfo: &str) -> u64 {
    let kib = meminfo.lines().find_map(|line| {
        let (_, amount) = line.split_once(" MemTotal:")?;
        amount.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kib.unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    #[test]
    fn nodes_are_in_the_order_of_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { sys: folder.path().into(), ..Roots::default() };
        for id in [0, 2, 10] {
            let node = folder.path().join(format!("devices/system/node/node{id}"));
            fs::create_dir_all(&node).unwrap();
            fs::write(node.join("distance"), "10 21 x 31\n").unwrap();
            fs::write(node.join("meminfo"), format!("Node {id} MemTotal:  2048 kB\nNode {id} MemFree: 1 kB\n"))
                .unwrap();
        }
        let (nodes, note) = read(&roots);
        assert_eq!((nodes.iter().map(|node| node.id).collect::<Vec<_>>(), note), (vec![0, 2, 10], None));
        assert_eq!((nodes[0].memory_mib, &nodes[0].distances[..]), (2, &[10, 21, 31][..]));
        assert_eq!(total_mib("Node 0 MemTotal: many kB"), 0);
    }
}
