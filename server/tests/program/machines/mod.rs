//! Many processes on one PostgreSQL: the real program several times, killed, stopped, cut off, with the database restarted and
//! replaced under it. These tests need a server (`tests/with-postgres.sh`); elsewhere they say so and do nothing.

mod accounts;
mod failover;
mod hangs;
mod losses;
mod messages;
mod office;
