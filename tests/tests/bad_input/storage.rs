//! The appliance's own trouble: a disk that is full, a clock that is wrong by years.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use firesteel_kube::ObjectPart;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_wire::{AgentInstruction, PlanStep};

use crate::agent::{Agent, End};
use crate::appliance::{Appliance, NAMESPACE, images_in, until};
use crate::images::{noise, published};

const MAC: &str = "02:00:00:00:04:01";
const YEARS_S: i64 = 20 * 365 * 24 * 3600;

/// A small filesystem of its own, gone at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(mib: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={mib}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).status();
        assert!(mounted.is_ok_and(|status| status.success()), "these tests run as root");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all room but so much.
    fn fill(&self, but_bytes: usize) -> PathBuf {
        let path = self.path().join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        let block = vec![1; 64 << 10];
        let mut bytes = 0;
        while file.write_all(&block).is_ok() {
            bytes += block.len();
        }
        // The part of a block that fitted goes as well.
        file.set_len(u64::try_from(bytes.saturating_sub(but_bytes)).unwrap()).unwrap();
        if but_bytes == 0 {
            drop(file.set_len(u64::try_from(bytes).unwrap()));
            while file.write_all(&block[..4096]).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a database may still be open below it.
        drop(Command::new("umount").arg("--lazy").arg(self.path()).status());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_nothing_is_acknowledged_that_is_not_kept() {
    let disk = SmallDisk::new(24);
    let appliance = Appliance::start(disk.path()).await;
    appliance.add("before", MAC, None).await;
    let filler = disk.fill(0);
    let mut refused = 0;
    for number in 0..200 {
        let mut host = firesteel_resources::BareMetalHost::default();
        host.metadata.name = format!("host-{number}");
        NAMESPACE.clone_into(&mut host.metadata.namespace);
        host.metadata.annotations.insert("padding".into(), "x".repeat(20_000));
        let created = appliance.hosts.create(&host).await;
        let kept = appliance.hosts.get(NAMESPACE, &host.metadata.name).await.unwrap().is_some();
        match created {
            Ok(_) => assert!(kept, "host-{number} was acknowledged"),
            Err(status) => {
                assert!(!kept, "host-{number} was refused and is there");
                for part in ["cannot write to the database", "full", "free space on the disk of the data folder"] {
                    assert!(status.message.contains(part), "no {part:?} in: {}", status.message);
                }
                refused += 1;
                break;
            }
        }
    }
    assert_eq!(refused, 1, "the disk never became full");
    std::fs::remove_file(filler).unwrap();
    appliance.add("after", "02:00:00:00:04:02", None).await;
    assert!(appliance.hosts.get(NAMESPACE, "before").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_does_not_fit_the_data_folder_leaves_the_databases_their_room() {
    let disk = SmallDisk::new(40);
    let appliance = Appliance::start(disk.path()).await;
    let (_origin, image) = published(noise(6 << 20));
    // A tenth of 40 MiB stays free for others, so 7 MiB do not take a download of 6 and its import.
    let filler = disk.fill(7 << 20);
    appliance.add("host", MAC, Some(image)).await;
    let mut agent = Agent::boot(&appliance, MAC, 1).await;
    assert!(matches!(agent.work(&appliance, "host").await, End::Error), "a disk was to be written");
    let told = ["could not be fetched", "no space is left for the image", "remove what is not needed"];
    appliance.assert_told("host", &told).await;
    assert_eq!(images_in(disk.path()), Vec::<String>::new());
    // The databases have their room all the while.
    appliance.add("other", "02:00:00:00:04:02", None).await;

    std::fs::remove_file(filler).unwrap();
    let retry = |host: &mut firesteel_resources::BareMetalHost| {
        host.metadata.annotations.insert(annotations::RETRY.into(), "true".into());
    };
    appliance.hosts.modify(NAMESPACE, "host", ObjectPart::Main, retry).await.unwrap();
    let mut plan = Vec::new();
    until("a plan for the disk", async || {
        if let AgentInstruction::Plan { plan: next } = agent.report(&appliance).await.unwrap() {
            if next.steps == [PlanStep::Inspect] {
                agent.inspect(&next);
            } else {
                plan = next.steps;
            }
        }
        !plan.is_empty()
    })
    .await;
    assert!(plan.iter().any(PlanStep::is_destructive));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_wrong_by_years_and_put_right_stops_no_host() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.ahead_s.store(YEARS_S, Ordering::SeqCst);
    let (_origin, image) = published(noise(2 << 20));
    appliance.add("host", MAC, Some(image)).await;
    let mut agent = Agent::boot(&appliance, MAC, 1).await;
    let wrong = agent.hello(&appliance).await.unwrap().time_ms;
    // That such a clock was in use is recorded once a minute.
    appliance.clock.record().await;
    // Somebody sets the clock. The agent's next reply carries the right time, and says what its host waits for: the
    // store cannot tell which of the two is right.
    appliance.ahead_s.store(0, Ordering::SeqCst);
    let reply = agent.hello(&appliance).await.unwrap();
    assert!(wrong - reply.time_ms > 600_000_000_000, "{wrong} {}", reply.time_ms);
    let hold = reply.hold.unwrap_or_default();
    assert!(hold.contains("accept-clock"), "{hold}");
    // A person says that it is right now, and the work goes on in the same boot.
    appliance.clock.accept().await.unwrap();
    let End::WritePlan(_) = agent.work(&appliance, "host").await else {
        panic!("{}", appliance.error("host").await);
    };
    // And forward again: no clock ends the token of a boot.
    appliance.ahead_s.store(2 * YEARS_S, Ordering::SeqCst);
    let opened = appliance.control.boots.open_boot(&agent.token).await;
    assert!(!opened.is_err_and(|denied| denied.to_string().contains("expired")));
}
