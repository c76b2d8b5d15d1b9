//! One binary for all tests that look at the server from the outside, so that it is linked once.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the way to fail")]

mod support;

mod ingest {
    //! Extraction from files that are built here, byte by byte where that matters.

    pub mod files;
    mod formats;
    mod hostile;
}

mod mail {
    //! Messages and channels against scripted and real mail servers.

    mod compose;
    mod exim;
    mod look_imap;
    mod look_peers;
    mod outbox;
    mod resend_faults;
    mod resend_session;
    mod smtp_archive;
    mod smtp_cancel;
    mod smtp_faults;
    mod smtp_keys;
    mod smtp_session;
    mod smtp_tls;
    mod words;
}

mod store {
    //! The record of a job under the contract's rules, without a worker.

    mod afterwards;
    mod cancel;
    mod clocks;
    mod constraints;
    mod fairness;
    mod files;
    mod forgetting;
    mod leases;
    mod lifecycle;
    mod recovery;
    mod s3;
    mod schema;
    mod set_aside;
}

mod jobs {
    //! Whole jobs through a worker, on real files and scripted servers.

    mod afterwards;
    mod answers;
    mod cancel;
    mod clocks;
    mod crash;
    mod doubt;
    mod ending;
    mod files;
    mod hold;
    mod keys;
    mod mailing;
    mod probes;
    mod random;
    mod restored;
    mod spinning;
}

mod mcp_source {
    //! MCP servers as sources of documents, over both transports, well-behaved and not.

    mod misbehaving;
    mod program;
    mod reading;
    mod stopping;
    mod tasks;

    use crate::support::instance::Instance;
    use documents::mcp::ServerSource;
    use domain::{
        id::{JobId, RequestKey},
        spec::{SourcePlace, SourceSpec, Spec},
    };
    use server::worker::Dependencies;

    const MINUTES: &str = "The council approved 140,000 dollars for the library.";

    /// A worker's services with one server.
    fn dependencies(instance: &Instance, source: ServerSource) -> Dependencies {
        Dependencies { servers: [source].into_iter().collect(), ..instance.dependencies() }
    }

    /// An order for June 2026 from the server with the id "wiki".
    fn wiki_spec(instance: &Instance) -> Spec {
        let place = SourcePlace::Server { server: "wiki".into() };
        let sources = vec![SourceSpec { id: "wiki".into(), name: "Wiki".into(), place }];
        Spec { sources, ..instance.spec(&["anna@example.org"]) }
    }

    /// A new job of ada's that asks it.
    async fn wiki_job(instance: &Instance) -> JobId {
        instance.store.create_job(instance.owner, RequestKey::new(), &wiki_spec(instance)).await.expect("the database works").0
    }
}

mod api {
    //! The site over HTTP, without a network.

    mod acts;
    mod afterwards;
    mod assistant;
    mod effects;
    mod events;
    mod files;
    mod forms;
    mod jobs;
    mod message_ids;
    mod orders;
    mod pages;
    mod scopes;
    mod set_aside;
}

mod availability {
    //! A database that is down, full or read-only: what people and programs are told, and that work goes on afterwards.

    mod characters;
    mod file;
    mod mcp;
    mod program;
    mod proxy;
    mod site;
    mod waiting;
}

mod mcp {
    //! The MCP server, over both of its transports, as the bytes that cross the line.

    mod cancelled_http;
    mod cancelled_stdio;
    mod doors;
    mod ends;
    mod offers;
    mod tasks;
}

mod docs {
    //! Documents that name code, held against it.

    mod field_reports;
    mod mcp;
}

mod program {
    //! The program itself, as a process that can be stopped and killed.

    mod backup;
    mod commands;
    mod connections;
    mod machines;
    mod plans;
    pub mod proof;
    mod serve;
    mod terminal;
    mod upgrade;
}
