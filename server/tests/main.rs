//! One binary for all tests that look at the server from the outside, so that it is linked once.

mod support;

mod ingest {
    //! Extraction from files that are built here, byte by byte where that matters.

    mod files;
    mod formats;
    mod hostile;
}

mod mail {
    //! Messages and channels against scripted and real mail servers.

    mod compose;
    mod exim;
    mod outbox;
    mod smtp_cancel;
    mod smtp_faults;
    mod smtp_session;
    mod smtp_tls;
}
