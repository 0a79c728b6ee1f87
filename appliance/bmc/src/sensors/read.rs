//! One reading: the resources that are known are asked for, after they were found. Every request counts. A resource that
//! the BMC does not give now is left out and counted; one that it has not is neither.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::layout::{SensorLayout, SensorMembers, SensorPaths};
use super::list::SensorList;
use super::parse::{self, LIST_MAX};
use super::{Sensor, SensorKind, SensorReading};
use crate::address::own_path;
use crate::client::RedfishClient;
use crate::error::Error;
use crate::http::Proof;
use crate::response::BmcResponse;

/// Chassis of one machine that are looked at: some have cages for drives beside the main one.
const CHASSIS_MAX: usize = 4;
/// Storage controllers whose drives are looked for.
const STORAGE_MAX: usize = 8;
/// Members of collections that are asked for one by one in each reading.
const SINGLE_MAX: usize = 24;
/// The most requests of one reading: to find the sensors, and to ask for them.
pub(super) const REQUESTS_MAX: usize = 64;
/// Requests without an answer after which no more is asked: the BMC hangs.
const TIMEOUTS_MAX: usize = 2;
/// Refusals in a row after which no more is asked: the session has ended, and it is not one resource that is refused.
const REFUSED_MAX: usize = 2;
/// The part of the time that is kept for drives, which are asked last.
const DRIVES_SHARE: u32 = 4;
/// Asks for a collection with its members in it (DSP0266, section 7.3.1).
const EXPANDED: &str = "?$expand=.($levels=1)";
/// Asks for it on services that expand links as well, or nothing.
const ALL_EXPANDED: &str = "?$expand=*($levels=1)";

/// The requests of one reading.
struct SensorRequests<'a> {
    client: &'a RedfishClient,
    left: usize,
    until: Instant,
    /// No more is asked in this reading.
    is_over: bool,
    /// A path that was found earlier is not there any more.
    is_moved: bool,
    /// Resources that may be there and were not read.
    unread: usize,
    timeouts: usize,
    refused: usize,
}

impl SensorRequests<'_> {
    fn may_ask(&self) -> bool {
        !self.is_over && self.left > 0 && Instant::now() < self.until
    }

    /// Asks for a resource; `None` if the BMC does not show it in a usable form, does not give it now, or no request is
    /// left.
    async fn get(&mut self, path: &str) -> Result<Option<Value>, Error> {
        if !self.may_ask() {
            self.unread += 1;
            return Ok(None);
        }
        self.left -= 1;
        match self.client.get_by_login(path).await {
            Ok((answer, proof)) => self.take(answer, &proof).await,
            Err(Error::Timeout { .. }) => {
                self.timeouts += 1;
                self.unread += 1;
                self.is_over |= self.timeouts >= TIMEOUTS_MAX;
                Ok(None)
            }
            Err(Error::BadAnswer { .. } | Error::Redirected { .. }) => {
                self.unread += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes an answer. None of them makes a new login: the next reading begins with one.
    async fn take(&mut self, answer: BmcResponse, proof: &Proof) -> Result<Option<Value>, Error> {
        let status = answer.status.as_u16();
        if status == 401 {
            return self.take_refusal(answer, proof).await;
        }
        self.refused = 0;
        match status {
            200..=299 => return Ok(parse::resource(&answer.body)),
            404 => self.is_moved = true,
            429 | 503 => {
                self.unread += 1;
                self.is_over = true;
            }
            500 | 502 | 504.. => self.unread += 1,
            _ => {}
        }
        Ok(None)
    }

    /// Takes a refusal. With a session it is the resource that is refused, unless the session has ended. Else the password
    /// was shown and refused, which the BMC may count.
    async fn take_refusal(&mut self, answer: BmcResponse, proof: &Proof) -> Result<Option<Value>, Error> {
        if !matches!(proof, Proof::Session(_)) {
            self.client.let_in(answer).await?;
            return Err(Error::Unauthorized);
        }
        self.refused += 1;
        if self.refused >= REFUSED_MAX {
            self.is_over = true;
            self.unread += self.refused;
        }
        Ok(None)
    }

    /// Keeps requests and time for what is asked last, and returns what [`Self::give_back`] needs.
    fn hold_back(&mut self, count: usize, time: Duration) -> HeldBudget {
        let held = HeldBudget { requests: count.min(self.left), until: self.until };
        self.left -= held.requests;
        self.until = self.until.checked_sub(time).unwrap_or(self.until);
        held
    }

    fn give_back(&mut self, held: &HeldBudget) {
        self.left += held.requests;
        self.until = held.until;
    }
}

/// What is kept for the resources that are asked last.
struct HeldBudget {
    requests: usize,
    /// The end of all asking.
    until: Instant,
}

impl RedfishClient {
    /// Reads the sensors of the machine, and stops asking after `within` or `REQUESTS_MAX` requests. What `layout` has not
    /// yet is found first. A machine whose BMC shows no sensor has an empty reading.
    ///
    /// # Errors
    /// What keeps the system itself from being read, or breaks the conversation.
    pub async fn sensors(&self, layout: &mut SensorLayout, within: Duration) -> Result<SensorReading, Error> {
        let now = Instant::now();
        let mut requests = SensorRequests {
            client: self,
            left: REQUESTS_MAX,
            until: now + within,
            is_over: false,
            is_moved: false,
            unread: 0,
            timeouts: 0,
            refused: 0,
        };
        let path = self.system.clone();
        requests.left -= 1;
        let system: Value = self.get(&path).await?.accepted("show its system", &path)?.json(&path)?;
        if layout.is_old(now) {
            let found = find(&mut requests, self.expands(), &system).await?;
            // What was not read may lead to more, so that it is not taken for all.
            layout.take(found.paths, found.drives, requests.unread > 0, now);
            requests.is_moved = false;
        }
        let mut list = SensorList::default();
        ask_whole(&mut requests, &layout.paths, &mut list).await?;
        let turns = layout.turns().len();
        let held = requests.hold_back(turns, if turns > 0 { within / DRIVES_SHARE } else { Duration::ZERO });
        ask_members(&mut requests, &layout.paths, &mut list).await?;
        requests.give_back(&held);
        // Drives are counted by themselves.
        list.leave_out(requests.unread);
        ask_drives(&mut requests, layout, &mut list).await?;
        layout.is_moved |= requests.is_moved;
        let (sensors, left_out) = list.finish();
        Ok(SensorReading { sensors, system: parse::rolled_up(&system["Status"]), left_out })
    }

    /// Returns the query by which the service gives a collection with its members, if it has one.
    fn expands(&self) -> Option<&'static str> {
        let query = self.root.features.as_ref()?.get("ExpandQuery").filter(|query| query["Levels"] == true)?;
        let is_offered = |name: &str| query[name] == true;
        if is_offered("NoLinks") { Some(EXPANDED) } else { is_offered("ExpandAll").then_some(ALL_EXPANDED) }
    }
}

/// What was found.
#[derive(Debug, Default)]
struct FoundSensors {
    paths: SensorPaths,
    drives: Vec<String>,
}

/// Looks for the resources of the machine's chassis, and for its drives.
async fn find(
    requests: &mut SensorRequests<'_>,
    expands: Option<&'static str>,
    system: &Value,
) -> Result<FoundSensors, Error> {
    let mut found = FoundSensors::default();
    for path in links(&system["Links"]["Chassis"], CHASSIS_MAX) {
        let Some(chassis) = requests.get(&path).await? else { continue };
        find_in_chassis(requests, expands, &chassis, &mut found.paths).await?;
        found.drives.extend(links(&chassis["Links"]["Drives"], LIST_MAX));
    }
    if let Some(path) = link(&system["Storage"])
        && let Some(storage) = requests.get(&path).await?
    {
        for path in links(&storage["Members"], STORAGE_MAX) {
            let Some(controller) = requests.get(&path).await? else { continue };
            found.drives.extend(links(&controller["Drives"], LIST_MAX));
        }
    }
    // A chassis and a controller name the same drive.
    let mut known = std::collections::BTreeSet::new();
    found.drives.retain(|path| known.insert(path.clone()));
    Ok(found)
}

/// Prefers the older resources, which have everything in one answer; services that left them out have the newer ones.
async fn find_in_chassis(
    requests: &mut SensorRequests<'_>,
    expands: Option<&'static str>,
    chassis: &Value,
    paths: &mut SensorPaths,
) -> Result<(), Error> {
    match link(&chassis["Thermal"]) {
        Some(thermal) => paths.thermal.push(thermal),
        None => {
            if let Some(path) = link(&chassis["Sensors"]) {
                find_members(requests, expands, &path, &mut paths.sensors).await?;
            }
            if let Some(path) = link(&chassis["ThermalSubsystem"])
                && let Some(subsystem) = requests.get(&path).await?
                && let Some(fans) = link(&subsystem["Fans"])
            {
                find_members(requests, expands, &fans, &mut paths.fans).await?;
            }
        }
    }
    match link(&chassis["Power"]) {
        Some(power) => paths.power.push(power),
        None => {
            paths.environments.extend(link(&chassis["EnvironmentMetrics"]));
            if let Some(path) = link(&chassis["PowerSubsystem"])
                && let Some(subsystem) = requests.get(&path).await?
                && let Some(supplies) = link(&subsystem["PowerSupplies"])
            {
                find_members(requests, expands, &supplies, &mut paths.supplies).await?;
            }
        }
    }
    Ok(())
}

async fn find_members(
    requests: &mut SensorRequests<'_>,
    expands: Option<&'static str>,
    path: &str,
    members: &mut SensorMembers,
) -> Result<(), Error> {
    if let Some(query) = expands {
        members.whole.push(format!("{path}{query}"));
        return Ok(());
    }
    let Some(collection) = requests.get(path).await? else { return Ok(()) };
    let count = collection["Members"].as_array().map_or(0, Vec::len);
    let room = SINGLE_MAX.saturating_sub(members.single.len());
    members.left_out += count.saturating_sub(room);
    members.single.extend(links(&collection["Members"], room));
    Ok(())
}

/// Asks for what one request reads.
async fn ask_whole(requests: &mut SensorRequests<'_>, paths: &SensorPaths, list: &mut SensorList) -> Result<(), Error> {
    for path in &paths.thermal {
        if let Some(resource) = requests.get(path).await? {
            parse::thermal(&resource, list);
        }
    }
    for path in &paths.power {
        if let Some(resource) = requests.get(path).await? {
            parse::power(&resource, list);
        }
    }
    for path in &paths.environments {
        let drawn = requests.get(path).await?.as_ref().and_then(parse::environment);
        drawn.into_iter().for_each(|sensor| list.push(sensor));
    }
    Ok(())
}

/// Asks for collections and their members. A fan that is a resource of its own is not taken from the sensors as well,
/// nor is power that another resource has.
async fn ask_members(
    requests: &mut SensorRequests<'_>,
    paths: &SensorPaths,
    list: &mut SensorList,
) -> Result<(), Error> {
    ask_list(requests, &paths.fans, parse::fan, list).await?;
    ask_list(requests, &paths.supplies, parse::power_supply, list).await?;
    let (has_fans, has_power) = (list.has(SensorKind::Fan), list.has(SensorKind::Power));
    let wanted = move |sensor: &Sensor| match sensor.kind {
        SensorKind::Fan => !has_fans,
        SensorKind::Power => !has_power,
        SensorKind::Temperature | SensorKind::Drive => true,
    };
    ask_list(requests, &paths.sensors, |resource| parse::single_sensor(resource).filter(wanted), list).await
}

async fn ask_list(
    requests: &mut SensorRequests<'_>,
    members: &SensorMembers,
    read: impl Fn(&Value) -> Option<Sensor>,
    list: &mut SensorList,
) -> Result<(), Error> {
    let mut single = members.single.clone();
    for path in &members.whole {
        let Some(collection) = requests.get(path).await? else { continue };
        let all = collection["Members"].as_array().map(Vec::as_slice).unwrap_or_default();
        for member in all.iter().take(LIST_MAX) {
            match read(member) {
                Some(sensor) => list.push(sensor),
                // Some services take the query and give links all the same.
                None if member.as_object().is_some_and(|fields| fields.len() == 1) => single.extend(link(member)),
                None => {}
            }
        }
        list.leave_out(all.len().saturating_sub(LIST_MAX));
    }
    list.leave_out(single.len().saturating_sub(SINGLE_MAX));
    for path in single.iter().take(SINGLE_MAX) {
        let sensor = requests.get(path).await?.as_ref().and_then(&read);
        sensor.into_iter().for_each(|sensor| list.push(sensor));
    }
    list.leave_out(members.left_out);
    Ok(())
}

/// Asks for the drives whose turn it is, and takes all that are known. Those of which nothing is known are left out.
async fn ask_drives(
    requests: &mut SensorRequests<'_>,
    layout: &mut SensorLayout,
    list: &mut SensorList,
) -> Result<(), Error> {
    for place in layout.turns() {
        if !requests.may_ask() {
            break;
        }
        layout.had_turn(place);
        let Some(slot) = layout.drives.get_mut(place) else { continue };
        let Some(resource) = requests.get(&slot.path).await? else { continue };
        // A bay without a drive is known as well.
        slot.last = Some((parse::drive(&resource), Instant::now()));
    }
    let known = layout.known_drives(Instant::now());
    list.leave_out(layout.drives_left_out + layout.drives.len() - known.len());
    known.into_iter().flatten().for_each(|sensor| list.push(sensor));
    Ok(())
}

/// The path of a link, if it stays on the service.
fn link(value: &Value) -> Option<String> {
    value["@odata.id"].as_str().and_then(own_path).map(str::to_owned)
}

fn links(list: &Value, most: usize) -> Vec<String> {
    list.as_array().map(Vec::as_slice).unwrap_or_default().iter().take(most).filter_map(link).collect()
}
