//! Certificates made on the spot, and settings that trust them.

use std::{io::Write as _, sync::Arc};

use ::mail::smtp::{Security, SmtpSettings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tempfile::NamedTempFile;
use tokio_rustls::TlsAcceptor;

use super::mail;

/// What the server shows, and the file that the client is told to trust: a CA, and a leaf apart from it.
pub fn certificate(name: &str) -> (TlsAcceptor, NamedTempFile) {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("key")).expect("CA");
    let key = KeyPair::generate().expect("key");
    let leaf = CertificateParams::new(vec![name.to_owned()]).expect("parameters").signed_by(&key, &ca).expect("leaf");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .expect("certificate");
    let mut file = NamedTempFile::new().expect("file");
    file.write_all(ca.pem().as_bytes()).expect("write");
    (TlsAcceptor::from(Arc::new(config)), file)
}

/// Settings for a server on this machine, by the name that is in its certificate.
pub fn settings(port: u16, security: Security, ca: Option<&NamedTempFile>) -> SmtpSettings {
    SmtpSettings {
        host: "localhost".into(),
        security,
        extra_ca_file: ca.map(|file| file.path().to_path_buf()),
        ..mail::settings(port)
    }
}
