//! `firesteel halt` and `firesteel resume`: stop the whole fleet and let it go on, by an object in the API.

use clap::Args;
use firesteel_resources::halt::USUAL_NAME;
use serde_json::{Value, json};

use super::client::code_of;
use super::confirm::{self, ConfirmOptions, ExpectedAnswer};
use super::table::clean;
use super::{ApiClient, kinds, print_text};

const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[derive(Clone, Debug, Args)]
pub struct HaltOptions {
    /// Why the fleet is stopped; every host that waits shows it
    #[arg(long, short, value_name = "TEXT")]
    reason: String,
    /// Name of this halt, if there is more than one [default: fleet]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    confirm: ConfirmOptions,
}

#[derive(Clone, Debug, Args)]
pub struct ResumeOptions {
    /// Name of the halt, if there is more than one [default: fleet]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    confirm: ConfirmOptions,
}

/// # Errors
/// When the person says no, the fleet is halted already under this name, or the appliance refuses or does not answer.
pub(crate) async fn halt(client: &ApiClient, options: &HaltOptions) -> anyhow::Result<()> {
    let HaltOptions { reason, name, confirm } = options;
    let name = name.as_deref().unwrap_or(USUAL_NAME);
    let text = format!(
        "The whole fleet is halted: no disk of any host is changed until an admin runs `{}`.\n",
        clean(&resume_command(name))
    );
    confirm::ask("halt", &text, ExpectedAnswer::Yes, *confirm)?;
    let asked = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let me = client.create(WHO_AM_I, &asked).await?;
    let by = me["status"]["userInfo"]["username"].as_str().unwrap_or("unknown");
    let by: String = by.chars().take(64).collect();
    let halt = json!({
        "apiVersion": "firesteel.dev/v1alpha1", "kind": "Halt", "metadata": { "name": name },
        "spec": { "by": by, "reason": reason },
    });
    let made = client.create(&collection(client)?, &halt).await.map_err(|error| match code_of(&error) {
        Some(409) => anyhow::anyhow!(
            "the fleet is halted already: {error}; `firesteel get halts` shows it, and --name makes another one"
        ),
        _ => error,
    })?;
    print_text(&format!(
        "the fleet is halted{}: no step that changes a disk begins, and those under way hold at their next safe point, \
         within a minute; an admin ends it by `{}`\n",
        if is_held(&made) { ", in the appliance's memory alone until its disk takes it" } else { "" },
        resume_command(name)
    ));
    Ok(())
}

/// # Errors
/// When the person says no, there is no such halt, or the appliance refuses or does not answer.
pub(crate) async fn resume(client: &ApiClient, options: &ResumeOptions) -> anyhow::Result<()> {
    let ResumeOptions { name, confirm } = options;
    confirm::check_terminal("resume", *confirm)?;
    let all = collection(client)?;
    let name = name.as_deref().unwrap_or(USUAL_NAME);
    if !confirm.yes {
        let text = ended(&client.get(&format!("{all}/{name}")).await.map_err(no_halt)?);
        confirm::ask("resume", &text, ExpectedAnswer::Yes, *confirm)?;
    }
    client.delete(&format!("{all}/{name}")).await.map_err(no_halt)?;
    let left = client.get(&all).await?;
    let names = left["items"].as_array().into_iter().flatten().filter_map(|halt| halt["metadata"]["name"].as_str());
    let names: Vec<&str> = names.filter(|other| *other != name).collect();
    print_text(&match names.as_slice() {
        [] => "the fleet goes on\n".to_owned(),
        others => format!("the halt {name} is over; the fleet stays halted by {}\n", clean(&others.join(", "))),
    });
    Ok(())
}

/// The command that ends the halt of this name.
pub(crate) fn resume_command(name: &str) -> String {
    if name == USUAL_NAME { "firesteel resume".to_owned() } else { format!("firesteel resume --name {name}") }
}

/// Says where the halts are, if there is none of this name.
fn no_halt(error: anyhow::Error) -> anyhow::Error {
    match code_of(&error) {
        Some(404) => anyhow::anyhow!("{error}; `firesteel get halts` shows all, and --name chooses one"),
        _ => error,
    }
}

/// Says which halt is ended.
fn ended(halt: &Value) -> String {
    let text = |value: &Value| clean(value.as_str().unwrap_or_default());
    format!(
        "The halt {} of {} since {} ends ({}): work that changes disks goes on at once, on every host.\n",
        text(&halt["metadata"]["name"]),
        text(&halt["spec"]["by"]),
        text(&halt["metadata"]["creationTimestamp"]),
        text(&halt["spec"]["reason"]),
    )
}

/// Tells whether the appliance holds the halt in memory because it could not store it: a stored one has a revision.
fn is_held(halt: &Value) -> bool {
    halt["metadata"]["resourceVersion"] == "0"
}

fn collection(client: &ApiClient) -> anyhow::Result<String> {
    Ok(kinds::collection(kinds::by_name("halts")?, &client.namespace))
}
