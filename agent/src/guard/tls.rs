//! Whom TLS trusts, and what it speaks: versions 1.2 and 1.3, HTTP/2 where the receiver has it.

use std::sync::{Arc, LazyLock};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// Mozilla's roots, as they came with this program: the same on every machine.
static ROOTS: LazyLock<RootCertStore> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(TLS_SERVER_ROOT_CERTS.iter().cloned());
    roots
});

/// Reads certificates in PEM.
///
/// # Errors
/// What is wrong with them, in words.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(found) if found.is_empty() => Err("it has no certificate in PEM".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("it is no PEM: {error}")),
    }
}

/// What a connection is made with; trusts the roots of this program and `authorities`.
///
/// # Errors
/// What can't be used, in words.
pub(super) fn config(authorities: &[CertificateDer<'static>]) -> Result<Arc<ClientConfig>, String> {
    let mut roots = ROOTS.clone();
    for authority in authorities {
        roots.add(authority.clone()).map_err(|error| format!("an authority's certificate can't be used: {error}"))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
