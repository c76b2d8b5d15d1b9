//! Two, three and five processes with jobs flowing, and one thing after the other that happens to them.

use super::{
    accounts::settle,
    office::{Office, number_is},
};
use crate::support::{
    cluster::Cluster,
    machine::{Machine, Role},
};

/// Jobs that have to end after each thing that has happened.
const MORE: usize = 6;

/// Whether another process has accounted for a job that somebody held.
const RECOVERED: &str = "select count(*) from history where entry like 'The worker has not been heard of%'";

/// Asks machines to stop; each must do so without a complaint.
pub async fn stop_all(machines: impl IntoIterator<Item = Machine>) {
    for machine in machines {
        let ran = machine.stops().await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_one_killed_and_one_asked_to_stop() {
    let Some(office) = Office::new("two processes").await else { return };
    let mut raw = office.raw().await;
    let (pages, mut worker) = (office.start(Role::Serve).await, office.start(Role::Worker).await);
    let mut traffic = office.opens(2, &[&pages]);
    for _ in 0..2 {
        traffic.goes_on(MORE, "two processes").await;
        let before = raw.number(RECOVERED).await;
        worker.freezes_with_a_job(&mut raw).await;
        worker = worker.dies_and_comes_back(&office.home).await;
        number_is(&mut raw, RECOVERED, |count| count > before).await;
    }
    traffic.goes_on(MORE, "after the kills").await;
    stop_all([worker]).await;
    traffic.goes_on(MORE, "after a stop").await;
    let orders = traffic.closes().await;
    stop_all([pages]).await;
    settle(&office, &orders, "Two processes, one killed twice and stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_one_asleep_past_its_lease_and_one_cut_off() {
    let Some(office) = Office::new("three processes").await else { return };
    let mut raw = office.raw().await;
    let (pages, first, second) =
        (office.start(Role::Pages).await, office.start(Role::Worker).await, office.start(Role::Serve).await);
    let mut traffic = office.opens(3, &[&pages, &second]);
    traffic.goes_on(MORE, "three processes").await;

    let before = raw.number(RECOVERED).await;
    first.freezes_with_a_job(&mut raw).await;
    number_is(&mut raw, RECOVERED, |count| count > before).await;
    traffic.goes_on(MORE, "one asleep").await;
    first.signal("CONT");
    traffic.goes_on(MORE, "it woke up").await;

    let before = raw.number(RECOVERED).await;
    second.is_cut_off_with_a_job(&mut raw).await;
    number_is(&mut raw, RECOVERED, |count| count > before).await;
    traffic.goes_on(MORE, "one hears nothing").await;
    second.line.resets();
    traffic.goes_on(MORE, "one is refused").await;
    second.line.heals();
    traffic.goes_on(MORE, "healed").await;
    let orders = traffic.closes().await;
    stop_all([first, second, pages]).await;
    settle(&office, &orders, "Three processes, one asleep, one cut off").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_processes_and_a_database_that_is_restarted() {
    let Some(cluster) = Cluster::start("five processes") else { return };
    let office = Office::on(cluster.database().await).await;
    let mut machines = Vec::new();
    for role in [Role::Pages, Role::Pages, Role::Serve, Role::Worker, Role::Worker] {
        machines.push(office.start(role).await);
    }
    let mut traffic = office.opens(5, &machines.iter().collect::<Vec<_>>());
    traffic.goes_on(MORE, "five processes").await;
    for mode in ["fast", "immediate"] {
        cluster.stop(mode);
        cluster.start_again();
        traffic.goes_on(MORE, mode).await;
    }
    let mut raw = office.raw().await;
    machines[3].freezes_with_a_job(&mut raw).await;
    let worker = machines.remove(3).dies_and_comes_back(&office.home).await;
    machines.push(worker);
    cluster.kill();
    cluster.start_again();
    traffic.goes_on(MORE, "both killed").await;
    let orders = traffic.closes().await;
    stop_all(machines).await;
    settle(&office, &orders, "Five processes, the database restarted three times").await;
}
