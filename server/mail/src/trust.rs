//! Whom TLS trusts: the system's certificates and, where the settings name one, the file's besides.

use std::{fs, path::Path, sync::Arc};

use rustls::{
    ClientConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use rustls_platform_verifier::Verifier;

/// Prepares TLS.
///
/// # Errors
/// Says in words what is wrong with the file or with the system's certificates.
pub(super) fn client(extra_ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let extra = extra_ca_file.map(certificates).transpose()?.unwrap_or_default();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Verifier::new_with_extra_roots(extra, provider.clone()).map_err(|e| e.to_string())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        // The platform's own verifier; "dangerous" is rustls's word for any that is not its default.
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unusable = |reason: String| format!("the certificate file {} cannot be used: {reason}", path.display());
    let pem = fs::read(path).map_err(|e| unusable(e.to_string()))?;
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(|e| unusable(e.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable("it holds no certificate".to_owned()));
    }
    Ok(certificates)
}
