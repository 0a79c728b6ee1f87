//! The appliance's CAs. The CA that signs for the server has generations: while one replaces another, both are trusted.
//!
//! | | the server's chain | trusted by hosts and people |
//! |---|---|---|
//! | one CA | server ← CA | the CA |
//! | overlap | server ← old CA, and a certificate of the old CA's key by the new CA | the new CA and the old one |
//! | after it | server ← new CA | the new CA |
//!
//! ```text
//!   one CA ── age, `rotate-ca` ──► overlap ── `rotate-ca --finish` ──► one CA
//!      ◄──────── `--undo` ────────    ◄──────────── `--undo` ────────────
//! ```
//!
//! So a client that trusts either of them accepts the chain of the overlap. (A certificate of the new key by the old CA
//! would not work for clients that check path lengths: our first CAs allow no CA below them.)
//!
//! A clock never ends a CA. It may be wrong by years, and every disk and kubeconfig that trusts only the old CA is cut
//! off when that ends; the appliance does not know which ones do. The clock renews certificates with the same keys
//! ([`CaUpkeep`] lists its requests), and begins an overlap, which cuts nothing off. A person ends it. The old key is
//! then kept as `NAME.key.retired` until the next end: [`AuthorityBook::undo`] restores it.
//!
//! The CAs are in one file, `pki/authorities.json`, which is replaced whole; the keys are in files beside it.

use std::path::Path;

use anyhow::Context as _;
use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use ring::digest;
use serde::{Deserialize, Serialize};

use super::ca_upkeep::{CaUpkeep, Renewal};
use super::{BACKDATE, CertificateRecord, key, set_validity};
use crate::serve::data_dir::DataDir;

pub(super) const CA_YEARS: i64 = 10;
const BOOK: &str = "pki/authorities.json";
const COMMON_NAME: &str = "Firesteel appliance CA";
/// How many earlier CAs are remembered, so that stubs which still hold one are recognised as ours: 60 years of them.
const PAST_MAX: usize = 8;

/// A CA that is not rotated.
pub(crate) struct CertificateAuthority {
    /// The certificate in PEM.
    pub(crate) pem: String,
    pub(crate) issuer: Issuer<'static, KeyPair>,
}

/// Loads or makes a CA: its key stays, and its certificate is renewed when the clock requires it.
pub(crate) fn authority(
    data: &DataDir,
    name: &str,
    common_name: &str,
    now: Timestamp,
) -> anyhow::Result<CertificateAuthority> {
    let [key_file, file, made_file] = ["key", "crt", "json"].map(|extension| format!("pki/{name}.{extension}"));
    let key = key(data, &key_file)?;
    let made = validity(now)?;
    let params = ca_params(common_name, &made, 0)?;
    let fits = CertificateRecord::read(data, &made_file).is_some_and(|made| made.fits(now));
    if !fits || !data.path(&file).exists() {
        let certificate = params.self_signed(&key).with_context(|| format!("could not sign {file}"))?;
        data.write(&file, certificate.pem().as_bytes())?;
        data.write(&made_file, &serde_json::to_vec(&made)?)?;
    }
    Ok(CertificateAuthority { pem: data.read_text(&file)?, issuer: Issuer::new(params, key) })
}

/// The CAs that sign for the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AuthorityBook {
    pub(super) current: Generation,
    /// The CA that replaces the current one, during an overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<Generation>,
    /// The CA whose overlap ended last: its key is still there, under another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retired: Option<Generation>,
    /// The highest number of a CA whose rotation was undone. No two CAs have the same name.
    #[serde(default, skip_serializing_if = "is_zero")]
    taken_back: u32,
    /// The earlier CAs in PEM, the oldest first.
    #[serde(default)]
    pub(super) past: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Generation {
    number: u32,
    pub(super) pem: String,
    pub(super) made: CertificateRecord,
}

/// The step that was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoneRotation {
    /// The end of an overlap: both CAs are trusted again.
    End,
    /// The beginning of an overlap: the CA is the only one again.
    Beginning,
}

/// Why no step was undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndoRotationError {
    #[error("no rotation of the CA is under way, and no old CA is left from one that has ended")]
    Nothing,
    #[error("could not undo the end of the old CA: its key is gone; put it back as {file} from a copy of the folder")]
    NoKey { file: String },
    #[error("the CA is so old that its rotation would begin again at once (serve --ca-years)")]
    Due,
}

impl Generation {
    fn make(data: &DataDir, number: u32, now: Timestamp) -> anyhow::Result<Self> {
        Self::sign(data, number, validity(now)?)
    }

    /// Makes another certificate for the same CA.
    fn renewed(&self, data: &DataDir, renewal: Renewal, now: Timestamp) -> anyhow::Result<Self> {
        let mut made = validity(now)?;
        if renewal == Renewal::FromBefore {
            made.not_before = self.made.not_before.min(made.not_before);
        }
        Self::sign(data, self.number, made)
    }

    fn sign(data: &DataDir, number: u32, made: CertificateRecord) -> anyhow::Result<Self> {
        let key = key(data, &key_file(number))?;
        let params = ca_params(&common_name(number), &made, path_length(number))?;
        let certificate = params.self_signed(&key).context("could not sign a CA")?;
        Ok(Self { number, pem: certificate.pem(), made })
    }

    /// Returns the CA with its key, ready to sign.
    pub(super) fn issuer(&self, data: &DataDir) -> anyhow::Result<Issuer<'static, KeyPair>> {
        let params = ca_params(&common_name(self.number), &self.made, path_length(self.number))?;
        Ok(Issuer::new(params, key(data, &key_file(self.number))?))
    }

    /// Names this certificate.
    pub(super) fn fingerprint(&self) -> String {
        hex::encode(digest::digest(&digest::SHA256, self.pem.as_bytes()))
    }
}

impl AuthorityBook {
    /// Reads the CAs, makes missing ones, and does what the clock requires. `years` is the age at which a rotation
    /// begins.
    pub(super) fn open(data: &DataDir, years: u8, now: Timestamp) -> anyhow::Result<Self> {
        let stored: Option<Self> = if data.path(BOOK).exists() {
            Some(serde_json::from_str(&data.read_text(BOOK)?).with_context(|| format!("could not read {BOOK}"))?)
        } else {
            Self::legacy_authority(data)?
        };
        let mut book = match stored.clone() {
            Some(book) => book,
            None => Self::of(Generation::make(data, 1, now)?),
        };
        book.check_generations(data, years, now)?;
        if stored.as_ref() != Some(&book) {
            book.store(data)?;
        }
        let bundle = book.bundle();
        if !data.path("pki/ca.crt").exists() || data.read_text("pki/ca.crt")? != bundle {
            data.write("pki/ca.crt", bundle.as_bytes())?;
        }
        Ok(book)
    }

    /// Reads the files of earlier versions: one CA, its certificate, and what that was made for.
    fn legacy_authority(data: &DataDir) -> anyhow::Result<Option<Self>> {
        let Some(made) = CertificateRecord::read(data, "pki/ca.json").filter(|_| data.path("pki/ca.crt").exists())
        else {
            return Ok(None);
        };
        Ok(Some(Self::of(Generation { number: 1, pem: data.read_text("pki/ca.crt")?, made })))
    }

    fn of(current: Generation) -> Self {
        Self { current, next: None, retired: None, taken_back: 0, past: Vec::new() }
    }

    fn check_generations(&mut self, data: &DataDir, years: u8, now: Timestamp) -> anyhow::Result<()> {
        let next = self.next.as_ref().map(|next| &next.made);
        let CaUpkeep { renews_next, renewal, begins } = CaUpkeep::of(&self.current.made, next, years, now)?;
        if renews_next && let Some(next) = &mut self.next {
            let made = Generation::make(data, next.number, now)?;
            let replaced = std::mem::replace(next, made);
            self.remember(replaced.pem);
        }
        if renewal != Renewal::No {
            let made = self.current.renewed(data, renewal, now)?;
            let replaced = std::mem::replace(&mut self.current, made);
            self.remember(replaced.pem);
        }
        if begins {
            self.begin(data, now)?;
        }
        Ok(())
    }

    /// Begins an overlap, unless there is one.
    pub(super) fn begin(&mut self, data: &DataDir, now: Timestamp) -> anyhow::Result<()> {
        if self.next.is_none() {
            let number = self.current.number.max(self.taken_back).checked_add(1).context("could not count CAs")?;
            self.next = Some(Generation::make(data, number, now)?);
            self.store(data)?;
            tracing::info!(number, "a new CA: both are trusted until `firesteel rotate-ca --finish`");
        }
        Ok(())
    }

    /// Ends an overlap at its owner's request. Returns `false` if there is none.
    pub(super) fn finish(&mut self, data: &DataDir, now: Timestamp) -> anyhow::Result<bool> {
        let Some(next) = self.next.take() else { return Ok(false) };
        let old = std::mem::replace(&mut self.current, next);
        let number = old.number;
        self.remember(old.pem.clone());
        let before = self.retired.replace(old);
        self.store(data)?;
        let (key, aside) = (data.path(&key_file(number)), data.path(&retired_file(number)));
        if let Err(error) = std::fs::rename(&key, &aside) {
            tracing::warn!(file = %key.display(), %error, "could not rename the key of the old CA: it stays as it is");
        }
        // The CA before it signs nothing any more, and a deleted key cannot be stolen.
        if let Some(before) = before {
            remove(&data.path(&retired_file(before.number)));
        }
        let (number, aside) = (self.current.number, aside.display());
        tracing::info!(number, at = %now, %aside, "the new CA is the only one");
        Ok(true)
    }

    /// Undoes the last step of a rotation: its end, or its beginning.
    pub(super) fn undo(
        &mut self,
        data: &DataDir,
        years: u8,
        now: Timestamp,
    ) -> anyhow::Result<Result<UndoneRotation, UndoRotationError>> {
        if self.next.is_some() { self.undo_beginning(data, years, now) } else { self.undo_end(data) }
    }

    fn undo_end(&mut self, data: &DataDir) -> anyhow::Result<Result<UndoneRotation, UndoRotationError>> {
        let Some(old) = self.retired.clone() else { return Ok(Err(UndoRotationError::Nothing)) };
        let (key, aside) = (data.path(&key_file(old.number)), data.path(&retired_file(old.number)));
        // A process that was killed in between may have renamed the key already, or not yet.
        if aside.exists() {
            std::fs::rename(&aside, &key).with_context(|| format!("could not rename {} back", aside.display()))?;
        } else if !key.exists() {
            return Ok(Err(UndoRotationError::NoKey { file: retired_file(old.number) }));
        }
        self.past.retain(|pem| *pem != old.pem);
        self.next = Some(std::mem::replace(&mut self.current, old));
        self.retired = None;
        self.store(data)?;
        tracing::info!(number = self.current.number, "the old CA is trusted again, beside the new one");
        Ok(Ok(UndoneRotation::End))
    }

    fn undo_beginning(
        &mut self,
        data: &DataDir,
        years: u8,
        now: Timestamp,
    ) -> anyhow::Result<Result<UndoneRotation, UndoRotationError>> {
        if CaUpkeep::of(&self.current.made, None, years, now)?.begins {
            return Ok(Err(UndoRotationError::Due));
        }
        let Some(next) = self.next.take() else { return Ok(Err(UndoRotationError::Nothing)) };
        let number = next.number;
        self.taken_back = self.taken_back.max(number);
        self.remember(next.pem);
        self.store(data)?;
        remove(&data.path(&key_file(number)));
        tracing::info!(number, "the rotation of the CA is undone: the CA is the only one");
        Ok(Ok(UndoneRotation::Beginning))
    }

    fn remember(&mut self, pem: String) {
        self.past.push(pem);
        let excess = self.past.len().saturating_sub(PAST_MAX);
        self.past.drain(..excess);
    }

    fn store(&self, data: &DataDir) -> anyhow::Result<()> {
        data.write(BOOK, &serde_json::to_vec_pretty(self)?)
    }

    /// Returns the CAs that are trusted now: the new one first.
    pub(super) fn bundle(&self) -> String {
        self.next.iter().chain([&self.current]).map(|one| one.pem.as_str()).collect()
    }

    /// Returns the current CA's key, signed by the next CA.
    pub(super) fn crossed(&self, data: &DataDir) -> anyhow::Result<Option<String>> {
        let Some(next) = &self.next else { return Ok(None) };
        let number = self.current.number;
        let until = self.current.made.not_after.min(next.made.not_after);
        let made =
            CertificateRecord { not_after: until, not_before: next.made.not_before, ..CertificateRecord::default() };
        let mut params = ca_params(&common_name(number), &made, 0)?;
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key(data, &key_file(number))?, &next.issuer(data)?);
        Ok(Some(certificate.context("could not sign the old CA by the new one")?.pem()))
    }
}

fn key_file(number: u32) -> String {
    if number == 1 { "pki/ca.key".to_owned() } else { format!("pki/ca-{number}.key") }
}

/// Returns the name of the key of a CA whose overlap has ended.
fn retired_file(number: u32) -> String {
    format!("{}.retired", key_file(number))
}

fn remove(key: &Path) {
    if let Err(error) = std::fs::remove_file(key) {
        tracing::warn!(file = %key.display(), %error, "could not remove the key of an old CA: remove it");
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Returns the name of a CA. Each has its own: a client that looks CAs up by name would take two of one name for one.
fn common_name(number: u32) -> String {
    if number == 1 { COMMON_NAME.to_owned() } else { format!("{COMMON_NAME} {number}") }
}

/// Returns the path length: the first CA was made without rotations in mind.
fn path_length(number: u32) -> u8 {
    u8::from(number > 1)
}

pub(super) fn validity(now: Timestamp) -> anyhow::Result<CertificateRecord> {
    let not_after = now.to_zoned(TimeZone::UTC).checked_add(CA_YEARS.years())?.timestamp();
    Ok(CertificateRecord { not_before: now - BACKDATE, not_after, ..CertificateRecord::default() })
}

fn ca_params(common_name: &str, made: &CertificateRecord, path_length: u8) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(path_length));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, made)?;
    Ok(params)
}
