//! The fields of the kind.

use crate::shape::{Field, Literal, Shape};
use crate::{condition, selector};

/// Architectures by their names in Kubernetes and in stream metadata.
pub const ARCHITECTURES: [&str; 6] = ["amd64", "arm64", "ppc64le", "s390x", "x86_64", "aarch64"];
/// More canaries than any trial needs.
const CANARIES_MAX: i64 = 1000;
/// Bounds of the deadline: a boot takes minutes, and no trial lasts a week.
const DEADLINE_SECONDS: (i64, i64) = (60, 7 * 24 * 3600);
/// A write of a large image to a slow disk, two boots, and some patience.
pub const DEADLINE_SECONDS_DEFAULT: i64 = 2 * 3600;
/// Entries of the group itself: at a release every two weeks, more than a year.
pub const HISTORY_MAX: usize = 32;
/// Entries of hosts, so that the object stays below what clients list at ease.
pub const HOST_HISTORY_MAX: usize = 512;
/// Hosts that are listed with what keeps them from an image: a rack and more. The counts cover the rest.
pub const SKIPPED_HOSTS_MAX: usize = 128;
/// Longest text about one of them: a sentence with a URL in it.
pub const SKIPPED_CHARS_MAX: usize = 256;
const SHA256_PATTERN: &str = "^[0-9a-f]{64}$";
/// A label's and a name's grammar at once: the pool's name is a part of a URL and of a Secret's name.
const NAME_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

const TEXT: Shape = Shape::TEXT;
const NAME: Shape = TEXT.chars_min(1).chars_max(253).matching(NAME_PATTERN);

const IMAGE: Shape = Shape::object(&[
    Field::new("checksum", TEXT).about("Of an image of one's own: its digest, or the URL of one."),
    Field::new("digest", TEXT.matching(SHA256_PATTERN)).about("With track pinned: the image, by its SHA-256."),
    Field::new("release", TEXT.chars_min(1).chars_max(128)).about("With track pinned: the release."),
    Field::new("stream", NAME).about("The BootImageStream that images come from."),
    Field::new("track", Shape::one_of(&["latest", "pinned"]).with_default(Literal::Text("latest")))
        .about("Whether the stream's newest release is followed, or one release is kept."),
    Field::new("url", TEXT.chars_min(1)).about("An image of one's own, of no stream."),
]);

const ROLLOUT: Shape = Shape::object(&[
    Field::new("attempt", Shape::INT32.min(0)).about("A higher number tries again an image whose canary halted."),
    Field::new("canaries", Shape::INT32.min(1).max(CANARIES_MAX)).about("How many hosts try a new image; 1 if unset."),
    Field::new("deadlineSeconds", Shape::INT64.min(DEADLINE_SECONDS.0).max(DEADLINE_SECONDS.1))
        .about("How long a canary may take until its OS reports itself; two hours if unset."),
    Field::new("mode", Shape::one_of(&["all", "canary"]).with_default(Literal::Text("all")))
        .about("Whether a new image goes to all at once, or is tried by a few first."),
]);

const RESTORE: Shape =
    Shape::object(&[Field::required("entry", Shape::INT32.min(1)).about("The number of an entry of status.history.")]);

const SPEC: Shape = Shape::object(&[
    Field::new("architecture", Shape::one_of(&ARCHITECTURES)).about("The architecture of all hosts of the group."),
    Field::required("image", IMAGE).about("The image: of a stream, or one's own."),
    Field::new("pool", NAME).about("The pool whose stub hosts get."),
    Field::new("restore", RESTORE).about("Goes back to an image that was here, and stays there while this is set."),
    Field::new("rollout", ROLLOUT).about("How a new image comes to the hosts."),
    Field::required("selector", selector::SHAPE).about("The labels of the hosts, in this namespace."),
]);

const STREAM: Field = Field::new("stream", TEXT).about("The stream that the image is of.");
const RELEASE: Field = Field::new("release", TEXT).about("The release that the image is of.");
const DIGEST: Field = Field::required("digest", TEXT).about("What the image is checked by.");
const URL: Field = Field::required("url", TEXT).about("Where the image is.");

const REFERENCE: Shape = Shape::object(&[STREAM, RELEASE, DIGEST, URL]);

const CANARY_HOST: Shape = Shape::object(&[
    Field::required("name", TEXT).about("The name of the host."),
    Field::required("running", Shape::BOOLEAN).about("Whether its OS reported itself."),
    Field::required("since", Shape::TIME).about("When it was given the image."),
]);

const CANARY: Shape = Shape::object(&[
    Field::new("attempt", Shape::INT32).about("Which attempt of spec.rollout it is."),
    Field::required("hosts", Shape::list(&CANARY_HOST).keyed_by(&["name"])).about("The hosts that try it."),
    Field::required("image", REFERENCE).about("The image that is tried."),
    Field::new("message", TEXT).about("Why it halted."),
    Field::required("since", Shape::TIME).about("When the trial began."),
    Field::required("state", Shape::one_of(&["Trying", "Promoted", "Halted"])).about("How the trial stands."),
]);

const ENTRY: Shape = Shape::object(&[
    STREAM,
    RELEASE,
    DIGEST,
    URL,
    Field::required("at", Shape::TIME).about("When it was."),
    Field::required("by", TEXT).about("Who or what brought it about."),
    Field::required("entry", Shape::INT32).about("Its number, which spec.restore.entry may name."),
    Field::new("host", TEXT).about("The host that got the image; without it, the whole group came to it."),
]);

const COUNTS: Shape = Shape::object(&[
    Field::new("failed", Shape::INT32).about("Hosts whose installation failed."),
    Field::new("foreign", Shape::INT32).about("Hosts that have an image of their own, or are not to be installed."),
    Field::new("installing", Shape::INT32).about("Hosts that are being installed."),
    Field::new("provisioned", Shape::INT32).about("Hosts that are installed, whose OS has not reported itself."),
    Field::new("running", Shape::INT32).about("Hosts whose OS reported itself."),
    Field::new("total", Shape::INT32).about("Hosts of the group."),
    Field::new("waiting", Shape::INT32).about("Hosts that are to be installed, and held back for a reason."),
]);

const SKIPPED: Shape = Shape::object(&[
    Field::required("message", TEXT).about("Why it gets nothing, for people."),
    Field::required("name", TEXT).about("The name of the host."),
    Field::required("reason", TEXT).about("Why it gets nothing, as one word."),
]);

const STATUS: Shape = Shape::object(&[
    Field::new("canary", CANARY).about("The newest trial of an image."),
    Field::new("conditions", condition::LIST_SHAPE).about("How the group is."),
    Field::new("current", REFERENCE).about("The image that hosts get when they are installed."),
    Field::new("golden", REFERENCE).about("The image that the policy wants them to get."),
    Field::new("history", Shape::list(&ENTRY).atomic().items_max(HISTORY_MAX + HOST_HISTORY_MAX))
        .about("Which image the group and its hosts had, the oldest first."),
    Field::new("hosts", COUNTS).about("How many hosts stand how."),
    Field::new("lastEntry", Shape::INT32).about("The highest number that an entry of history had."),
    Field::new("observedGeneration", Shape::INT64).about("The generation of the object that this was found of."),
    Field::new("otherForms", Shape::map(&Shape::TEXT))
        .about("Digests of the images here in their forms for other sectors, each with the digest that stands here."),
    Field::new("previous", REFERENCE).about("The image that they got before."),
    Field::new("skippedHosts", Shape::list(&SKIPPED).atomic().items_max(SKIPPED_HOSTS_MAX))
        .about("Hosts that get nothing now, since they wait or have another owner, and why."),
]);

pub(super) const SHAPE: Shape =
    Shape::object(&[Field::required("spec", SPEC).about("What is wanted."), Field::status(STATUS, "What is so.")]);
