//! What several test files need.

pub mod channels;
pub mod chaos;
pub mod cluster;
pub mod dovecot;
pub mod ended;
pub mod exim;
pub mod gate;
pub mod instance;
pub mod machine;
pub mod mail;
pub mod mcp;
pub mod mcp_server;
pub mod model_server;
pub mod pages;
pub mod program;
pub mod proxy;
pub mod raw;
pub mod resend_server;
pub mod s3_server;
pub mod site;
pub mod smtp_run;
pub mod smtp_server;
pub mod tls;
pub mod truth;
pub mod worker;
