//! `firesteel explain KIND[.FIELD]`: what a field of a kind means, from the schema that the appliance serves.

mod schema;

use anyhow::Context as _;

use self::schema::ExplainedField;
use super::kinds::{self, CliKind};
use super::usage::wrong_use;
use super::{ApiClient, print_text, table};

#[derive(Debug, clap::Args)]
pub struct ExplainOptions {
    /// A kind by its plural or short name, and behind it the path of a field, such as `hosts.spec.image`
    #[arg(value_name = "KIND[.FIELD]")]
    what: String,
    /// List the fields of fields, too, without their meaning
    #[arg(long)]
    recursive: bool,
}

/// # Errors
/// When there is no such kind or field, or the appliance does not answer.
pub(crate) async fn run(client: &ApiClient, options: &ExplainOptions) -> anyhow::Result<()> {
    let (kind, path) = kind_and_path(&options.what)?;
    let document =
        client.get(&format!("/openapi/v3{}", kinds::root(kind))).await.context("could not read the schema")?;
    let field = ExplainedField::find(&document, kind, &path)?;
    print_text(&field.render(kind, options.recursive, table::output_width()));
    Ok(())
}

/// Splits a kind, which may have its group behind it, from the path of a field.
fn kind_and_path(text: &str) -> anyhow::Result<(CliKind, Vec<String>)> {
    let parts: Vec<&str> = text.split('.').collect();
    // The longest name of a kind counts: `machinesets.machine.openshift.io.spec`.
    let found = (1..=parts.len()).rev().find_map(|length| {
        let kind = kinds::by_name(&parts[..length].join(".")).ok()?;
        Some((kind, parts[length..].iter().map(|&part| part.to_owned()).collect::<Vec<_>>()))
    });
    let Some((kind, path)) = found else {
        let error = kinds::by_name(parts[0]).err().map(|error| error.to_string()).unwrap_or_default();
        return Err(wrong_use(error));
    };
    if path.iter().any(String::is_empty) {
        return Err(wrong_use(format!("{text:?} has a dot without a field: write it as hosts.spec.image")));
    }
    Ok((kind, path))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_a_kind_and_perhaps_its_group() {
        let read =
            |text: &str| kind_and_path(text).map(|(kind, path)| format!("{} {}", kind.resource(), path.join("/")));
        assert_eq!(read("hosts.spec.image").unwrap(), "baremetalhosts.metal3.io spec/image");
        assert_eq!(read("bmh").unwrap(), "baremetalhosts.metal3.io ");
        assert_eq!(read("machinesets.machine.openshift.io.spec").unwrap(), "machinesets.machine.openshift.io spec");
        assert!(read("racks.spec").unwrap_err().to_string().contains("there is no kind \"racks\""));
        assert!(read("hosts..spec").unwrap_err().to_string().contains("a dot without a field"));
    }
}
