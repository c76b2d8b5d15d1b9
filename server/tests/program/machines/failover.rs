//! The database's machine dies, and a standby that has every answered commit takes its place.

use tokio::time::Instant;

use super::{
    accounts::settle,
    losses::stop_all,
    messages::print,
    office::{Office, Traffic},
};
use crate::support::{
    cluster::Cluster,
    machine::{Machine, Role},
    program::Home,
};

const MORE: usize = 6;

/// An office on a server with a standby, and machines that work.
struct Pair {
    primary: Cluster,
    standby: Cluster,
    office: Office,
    machines: Vec<Machine>,
    traffic: Traffic,
}

impl Pair {
    async fn start(test: &str, seed: u64) -> Option<Self> {
        let primary = Cluster::start(test)?;
        let office = Office::on(primary.database().await).await;
        let standby = primary.standby();
        primary.waits_for_its_standby().await;
        let mut machines = Vec::new();
        for role in [Role::Pages, Role::Serve, Role::Worker] {
            machines.push(office.start(role).await);
        }
        let mut traffic = office.opens(seed, &machines.iter().collect::<Vec<_>>());
        traffic.goes_on(MORE, "before the failover").await;
        Some(Self { primary, standby, office, machines, traffic })
    }

    /// The standby takes over, and new connections lead there.
    fn fail_over(&self) {
        self.standby.promote();
        for machine in &self.machines {
            machine.line.leads_to(self.standby.port);
        }
    }

    async fn settle(self, title: &str) {
        let Self { primary, standby, mut office, machines, mut traffic } = self;
        let since = Instant::now();
        traffic.goes_on(MORE, "after the failover").await;
        print(&format!("{title}: {MORE} more jobs had ended after"), &[since.elapsed()]);
        let orders = traffic.closes().await;
        stop_all(machines).await;
        drop(primary);
        office.home = Home::on(standby.place());
        settle(&office, &orders, title).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_from_a_database_that_is_killed() {
    let Some(pair) = Pair::start("failover", 7).await else { return };
    pair.primary.kill();
    pair.fail_over();
    pair.settle("Failover, the database killed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_from_a_database_that_vanishes_without_a_word() {
    let Some(pair) = Pair::start("silent failover", 8).await else { return };
    for machine in &pair.machines {
        machine.line.goes_silent();
    }
    pair.primary.kill();
    pair.fail_over();
    for machine in &pair.machines {
        machine.line.strands_connections();
    }
    pair.settle("Failover, the database vanished without a word").await;
}
