//! The section `ignition`: configs to fetch, timeouts, certificate authorities, proxies.

use serde_json::{Value, json};

use super::{VERSION, resource};
use crate::data_url;
use crate::fields::{FieldError, Fields, SparseObject};

pub(super) fn convert(head: &mut Fields) -> Result<SparseObject, FieldError> {
    drop(head.take("version"));
    let mut config = head.object("config")?;
    let merge = config.objects("append")?.into_iter().map(reference).collect::<Result<Vec<_>, _>>()?;
    let replace = config.object("replace")?;
    let replace = if replace.is_empty() { SparseObject::default() } else { reference(replace)? };
    config.end()?;
    let mut timeouts = head.object("timeouts")?;
    let times = SparseObject::default()
        .some("httpResponseHeaders", timeouts.whole("httpResponseHeaders")?)
        .some("httpTotal", timeouts.whole("httpTotal")?);
    timeouts.end()?;
    let mut security = head.object("security")?;
    let authorities = authorities(&mut security)?;
    security.end()?;
    let mut proxy = head.object("proxy")?;
    let proxies = SparseObject::default()
        .some("httpProxy", proxy.text("httpProxy")?.filter(|url| !url.is_empty()))
        .some("httpsProxy", proxy.text("httpsProxy")?.filter(|url| !url.is_empty()))
        .list("noProxy", proxy.texts("noProxy")?);
    proxy.end()?;
    Ok(SparseObject::default()
        .put("version", json!(VERSION))
        .object("config", SparseObject::default().list("merge", merge).object("replace", replace))
        .object("timeouts", times)
        .object("security", authorities)
        .object("proxy", proxies))
}

fn authorities(security: &mut Fields) -> Result<SparseObject, FieldError> {
    let mut tls = security.object("tls")?;
    let place = tls.at("certificateAuthorities");
    let mut list = Vec::new();
    for (index, entry) in tls.list("certificateAuthorities")?.into_iter().enumerate() {
        // The schema of spec 2 allows null here.
        if entry.is_null() {
            continue;
        }
        let mut entry = Fields::of(entry, &format!("{place}[{index}]"))?;
        list.push(resource(&mut entry)?);
        entry.end()?;
    }
    tls.end()?;
    Ok(SparseObject::default().object("tls", SparseObject::default().list("certificateAuthorities", list)))
}

/// A config that is fetched must be spec 3 itself. One that is inside this one can be looked at.
fn reference(mut fields: Fields) -> Result<SparseObject, FieldError> {
    let written = resource(&mut fields)?;
    let source = written.0.get("source").and_then(Value::as_str).unwrap_or_default();
    let inner: Option<Value> = data_url::decode(source).and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let version = inner.as_ref().and_then(|inner| inner.pointer("/ignition/version")).and_then(Value::as_str);
    if version.is_some_and(|version| !version.starts_with("3.")) {
        return Err(fields.error("source", "holds a config that is not spec 3: convert it first"));
    }
    fields.end()?;
    Ok(written)
}
