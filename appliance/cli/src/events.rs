//! `firesteel events`: what happened lately, oldest first, as `kubectl events` shows it.

use super::object_words::{self, KindSelection};
use super::usage::wrong_use;
use super::{ApiClient, OutputFormat, get};

#[derive(Debug, clap::Args)]
pub struct EventOptions {
    /// Events of all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Only events about this object
    #[arg(long = "for", value_name = "KIND/NAME")]
    about: Option<String>,
    /// Go on and print what happens
    #[arg(long, short)]
    watch: bool,
    /// table, wide, yaml, json, name or jsonpath=TEMPLATE
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputFormat::of_objects, default_value = "table")]
    output: OutputFormat,
}

/// # Errors
/// When there is no such kind, or the appliance does not answer.
pub(crate) async fn run(client: &ApiClient, options: EventOptions) -> anyhow::Result<()> {
    let about = options.about.as_deref().map(object).transpose()?;
    let fields = about.as_ref().map(|about| {
        let name = about.names.first().map(String::as_str).unwrap_or_default();
        format!("involvedObject.kind={},involvedObject.name={name}", about.kind.kind)
    });
    // Events of objects without a namespace are in `default`.
    let everywhere = options.all_namespaces || about.is_some_and(|about| !about.kind.namespaced);
    get::events(client, everywhere, fields, options.watch, &options.output).await
}

fn object(text: &str) -> anyhow::Result<KindSelection> {
    let found = object_words::read(&[text.to_owned()])?;
    match found.into_iter().next() {
        Some(one) if one.names.len() == 1 => Ok(one),
        Some(_) | None => {
            Err(wrong_use(format!("--for names one object as KIND/NAME, such as host/rack1-07, not {text:?}")))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn events_are_about_one_object() {
        assert_eq!(object("host/a").unwrap().names, ["a"]);
        assert!(object("hosts").unwrap_err().to_string().contains("--for names one object as KIND/NAME"));
    }
}
