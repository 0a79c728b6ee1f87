//! `firesteel version`: the versions of this program and of the appliance.

use serde_json::{Value, json};

use super::{ApiClient, ConnectionOptions, OutputFormat, print_text, table};

#[derive(Debug, clap::Args)]
pub struct VersionOptions {
    /// Only that of this program; no appliance is asked
    #[arg(long)]
    client: bool,
    /// table, yaml, json or jsonpath=TEMPLATE
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputFormat::of_page, default_value = "table")]
    output: OutputFormat,
}

/// Prints this program's version also if the appliance does not answer.
///
/// # Errors
/// When the appliance does not answer, or refuses.
pub(crate) async fn run(connection: &ConnectionOptions, options: &VersionOptions) -> anyhow::Result<()> {
    let server = if options.client { Ok(None) } else { server(connection).await.map(Some) };
    let mut all = json!({ "clientVersion": { "version": env!("CARGO_PKG_VERSION") } });
    if let Ok(Some(server)) = &server {
        all["serverVersion"] = server.clone();
    }
    print_text(&options.output.text_of(&all)?.unwrap_or_else(|| text(&all)));
    server.map(|_| ())
}

async fn server(connection: &ConnectionOptions) -> anyhow::Result<Value> {
    ApiClient::open(connection)?.get("/version").await
}

fn text(all: &Value) -> String {
    let lines = [("Client", "/clientVersion/version"), ("Server", "/serverVersion/gitVersion")];
    let lines = lines.iter().filter_map(|(who, place)| {
        let version = all.pointer(place)?.as_str()?;
        Some(format!("{who} Version: {}\n", table::clean(version)))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_have_a_line() {
        let all =
            json!({"clientVersion": {"version": "0.1.0"}, "serverVersion": {"gitVersion": "v1.36.0+firesteel.0.1.0"}});
        assert_eq!(text(&all), "Client Version: 0.1.0\nServer Version: v1.36.0+firesteel.0.1.0\n");
        assert_eq!(text(&json!({"clientVersion": {"version": "0.1.0"}})), "Client Version: 0.1.0\n");
    }
}
