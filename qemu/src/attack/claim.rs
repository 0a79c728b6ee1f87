//! A hello in a host's name: the token is the host's, the key is not.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use firesteel_wire::{
    HELLO_PATH, Hello, Program, PublicKey, RefusalReason, RefusalReply, SIGNATURE_HEADER, SmbiosIdentity, signing_input,
};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use tokio::time::sleep;

use super::{AGENT_PORT, AttackContext, appliance, count};

/// The pause after which an agent that is held asks again.
const HELLO_EVERY: Duration = Duration::from_secs(1);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn second_key(scene: AttackContext) -> anyhow::Result<()> {
    let token = scene.loot.token.clone().context("a second key needs --token")?;
    let ca = std::fs::read(scene.loot.ca.as_ref().context("a second key needs --ca")?).context("reading the CA")?;
    drop(rustls::crypto::ring::default_provider().install_default());
    let http = reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(&ca).context("reading the CA")?])
        .local_address(Some(scene.address(0).into()))
        .timeout(ANSWER_TIMEOUT)
        .no_proxy()
        .build()?;
    let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| anyhow::anyhow!("making a key"))?;
    let pair = Ed25519KeyPair::from_pkcs8(pair.as_ref()).map_err(|_| anyhow::anyhow!("reading a key"))?;
    let body = serde_json::to_vec(&hello(&scene, token, &pair)?)?;
    let signature = hex::encode(pair.sign(&signing_input(HELLO_PATH, &body)));
    let (address, port) = appliance(AGENT_PORT);
    let url = format!("https://{address}:{port}{HELLO_PATH}");
    loop {
        let request = http.post(&url).header(SIGNATURE_HEADER, &signature);
        let request = request.header("content-type", "application/json").body(body.clone());
        if let Ok(answer) = request.send().await {
            let is_taken = answer.status().is_success();
            let is_held =
                answer.json::<RefusalReply>().await.is_ok_and(|refusal| refusal.reason == RefusalReason::Held);
            let counter = match (is_taken, is_held) {
                (true, _) => &scene.counters.hellos_taken,
                (false, true) => &scene.counters.hellos_held,
                (false, false) => &scene.counters.hellos_refused,
            };
            count(counter, 1);
        }
        sleep(HELLO_EVERY).await;
    }
}

fn hello(scene: &AttackContext, token: String, pair: &Ed25519KeyPair) -> anyhow::Result<Hello> {
    let key = <[u8; 32]>::try_from(pair.public_key().as_ref()).context("a key of another length")?;
    ensure!(!token.is_empty(), "the token is empty");
    Ok(Hello {
        token,
        key: PublicKey(key),
        identity: SmbiosIdentity { boot_mac: scene.victim.clone(), ..SmbiosIdentity::default() },
        agent_version: "0.1.0".to_owned(),
        kernel_version: "6.1".to_owned(),
        uptime_ms: 1000,
        boot_id: "another".to_owned(),
        network: None,
        program: Program { abilities: vec![Program::ERASE_DISK.to_owned()], ..Program::default() },
    })
}
