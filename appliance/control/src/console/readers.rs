//! Reads the consoles of hosts that work.

use std::{sync::Arc, time::Duration};

use firesteel_bmc::{BmcAddress, Error, ipmi::ConsoleData};
use firesteel_kube::Objects;
use firesteel_plan::{HostInputs, HostMemory};
use firesteel_resources::{BareMetalHost, host_journal::InstanceRecord};
use firesteel_runtime::{HostKey, key_of, timeout};
use tokio::sync::watch;

use super::console_schedule::{ConsoleBudget, ConsoleInputs, ConsoleTries};
use super::{ConsoleControl, ConsoleTarget, ConsoleText, LET_GO, LOOK, OPEN_TIMEOUT, REFUSED_MAX, SILENCE, place_of};
use crate::bmc_logins::{BmcLogin, BmcLogins};
use crate::power::{BmcConsole, ConsoleAttachResult};
use crate::{logins::BmcAccount, shared::Shared};

/// A session at a BMC, or one that is about to be; gone when it is dropped.
struct OpenConsole {
    shared: Arc<Shared>,
    place: String,
}

impl Drop for OpenConsole {
    fn drop(&mut self) {
        self.shared.views().consoles.closed(&self.place);
    }
}

/// How a try ended.
enum ConsoleRetry {
    /// Heard for so long.
    After(Duration),
    /// It is not tried again in this work.
    ForGood,
    /// The power side has not logged in with what is given, or needs the BMC for itself.
    NotYet,
}

/// One console's lines on their way into the log.
struct ConsoleWriter {
    key: HostKey,
    number: u64,
    text: ConsoleText,
    /// What was last said of the console itself.
    last: String,
    /// Logins that the BMC refused.
    refused: u32,
}

/// Begins and ends to read consoles.
#[derive(Clone)]
pub(crate) struct ConsoleReaders {
    pub(crate) shared: Arc<Shared>,
    pub(crate) logins: BmcLogins,
    pub(crate) hosts: Objects<BareMetalHost>,
}

impl ConsoleReaders {
    /// Begins or ends to read a host's console, after a step that saw this and left this memory.
    pub(crate) fn update_console(&self, seen: &HostInputs, memory: &HostMemory, instance: Option<&InstanceRecord>) {
        let host = &seen.host;
        let key = key_of(host);
        let is_wanted = ConsoleInputs::of(memory, seen).is_wanted(instance, self.shared.now());
        let hears = |address: &BmcAddress| self.logins.bmc.has_console(address);
        let target = if is_wanted { ConsoleTarget::of(host, hears) } else { None };
        let Some(target) = target else { return self.shared.views().consoles.end(&key) };
        let begun = self.shared.views().consoles.begin(&key, target);
        let Some((number, orders)) = begun else { return };
        let readers = self.clone();
        self.shared.tasks.spawn_outward(async move { readers.read_console(key, number, orders).await });
    }

    /// Lets go of the consoles at a BMC that has no session left, and waits until they are closed. `false`: there were
    /// none, and nothing is gained by trying again.
    pub(crate) async fn consoles_give_way(&self, address: &BmcAddress) -> bool {
        let place = place_of(address);
        if !self.shared.views().consoles.give_way(&place, self.shared.runtime.uptime()) {
            return false;
        }
        let closed = async {
            while self.shared.views().consoles.is_any_open(&place) {
                self.shared.sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(&*self.shared.runtime, LET_GO, closed).await.is_some()
    }

    async fn read_console(self, key: HostKey, number: u64, mut orders: watch::Receiver<ConsoleControl>) {
        let mut tries = ConsoleTries::default();
        let mut told =
            ConsoleWriter { key: key.clone(), number, text: ConsoleText::default(), last: String::new(), refused: 0 };
        while !orders.borrow().is_over {
            let ended = self.try_console(&mut told, &mut orders).await;
            let pause = match ended {
                ConsoleRetry::After(heard_for) => tries.pause(heard_for),
                ConsoleRetry::NotYet => LOOK,
                ConsoleRetry::ForGood => return,
            };
            let over = async { drop(orders.wait_for(|orders| orders.is_over).await) };
            timeout(&*self.shared.runtime, pause, over).await;
        }
    }

    /// Tries once, from the login to the end of the session.
    async fn try_console(
        &self,
        told: &mut ConsoleWriter,
        orders: &mut watch::Receiver<ConsoleControl>,
    ) -> ConsoleRetry {
        let key = told.key.clone();
        let Ok(Some(host)) = self.hosts.get(&key.namespace, &key.name).await else { return ConsoleRetry::NotYet };
        // What is wrong with it the power side finds and reports.
        let Ok(login) = self.logins.login(&key, &host).await else { return ConsoleRetry::NotYet };
        let gave_way = orders.borrow_and_update().gave_way;
        let Some(open) = self.opens(&key, told.number, &login) else { return ConsoleRetry::NotYet };
        let opened = self.logins.bmc.listen(&login.address, &login.credentials);
        let mut console = match timeout(&*self.shared.runtime, OPEN_TIMEOUT, opened).await {
            Some(Ok(ConsoleAttachResult::To(console))) => console,
            Some(Ok(ConsoleAttachResult::Taken)) => {
                self.log_console_state(told, "somebody else listens to the serial console: it is tried again");
                return ConsoleRetry::After(Duration::ZERO);
            }
            Some(Ok(ConsoleAttachResult::NotOffered { why })) => {
                self.log_console_state(told, &format!("the serial console cannot be read: {why}"));
                return ConsoleRetry::ForGood;
            }
            Some(Err(error)) => {
                self.log_console_state(told, &format!("the serial console cannot be read now: {error}"));
                return self.after(told, &login.account, &error);
            }
            None => return ConsoleRetry::After(Duration::ZERO),
        };
        told.text.hide([login.credentials.password.clone()]);
        let begin = self.shared.runtime.uptime();
        self.log_console_state(told, "the serial console is read");
        let wants_end = |orders: &ConsoleControl| orders.is_over || orders.gave_way != gave_way;
        tokio::select! {
            biased;
            _ = orders.wait_for(wants_end) => {}
            () = self.read_until_closed(&mut *console, told) => {}
        }
        let rest = told.text.flush();
        self.append_lines(told, rest);
        console.close().await;
        drop(open);
        if orders.borrow().gave_way != gave_way {
            self.log_console_state(
                told,
                "the serial console is let go for a while: the BMC has no session left for the host's work",
            );
            return ConsoleRetry::NotYet;
        }
        ConsoleRetry::After(self.shared.runtime.uptime().saturating_sub(begin))
    }

    /// The right to log in: only with what the BMC took last.
    fn opens(&self, key: &HostKey, number: u64, login: &BmcLogin) -> Option<OpenConsole> {
        let mut views = self.shared.views();
        if !views.logins.is_good(&login.account, &login.given) {
            return None;
        }
        let place = views.consoles.opens(key, number, self.shared.runtime.uptime())?;
        Some(OpenConsole { shared: Arc::clone(&self.shared), place })
    }

    /// Reads until the console ends.
    async fn read_until_closed(&self, console: &mut dyn BmcConsole, told: &mut ConsoleWriter) {
        let runtime = &*self.shared.runtime;
        let mut budget = ConsoleBudget::new(runtime.uptime());
        while let Some(ConsoleData { characters, is_lossy }) = console.read_console(SILENCE).await {
            if is_lossy {
                let rest = told.text.flush();
                self.append_lines(told, rest);
                told.last.clear();
                self.log_console_state(told, "some of what the serial console said is missing here");
            }
            if characters.is_empty() {
                let rest = told.text.flush();
                self.append_lines(told, rest);
            } else {
                let lines = told.text.feed(&characters);
                self.append_lines(told, lines);
            }
            let pause = budget.take(characters.len(), runtime.uptime());
            if !pause.is_zero() {
                self.shared.sleep(pause).await;
            }
        }
        told.last.clear();
        self.log_console_state(told, "the serial console has ended");
    }

    /// Appends lines to the host's log.
    fn append_lines(&self, told: &ConsoleWriter, lines: impl IntoIterator<Item = String>) {
        let lines: Vec<String> = lines.into_iter().collect();
        // A host that was deleted and made again has a console of its own.
        if !lines.is_empty() && self.shared.views().consoles.is_current(&told.key, told.number) {
            self.shared.logs.keep_console(&told.key, self.shared.now(), lines);
        }
    }

    /// Logs the state of the console itself; the same one once.
    fn log_console_state(&self, told: &mut ConsoleWriter, text: &str) {
        if told.last == text {
            return;
        }
        tracing::debug!(host = %told.key, text, "console");
        text.clone_into(&mut told.last);
        self.append_lines(told, [format!("firesteel: {text}")]);
    }

    /// A refused login counts, and is not tried again before the power side was let in.
    fn after(&self, told: &mut ConsoleWriter, account: &BmcAccount, error: &Error) -> ConsoleRetry {
        if !error.may_count_as_login() {
            return ConsoleRetry::After(Duration::ZERO);
        }
        tracing::warn!(host = %told.key, %error, "the BMC refuses the console's login");
        self.shared.views().logins.refused_beside(account.clone(), self.shared.now());
        told.refused += 1;
        if told.refused < REFUSED_MAX { ConsoleRetry::NotYet } else { ConsoleRetry::ForGood }
    }
}
