//! Secrets that a browser or a program carries: 256 random bits. Whoever reads the database finds only their digests, and a
//! plain SHA-256 is enough for that, because nobody can guess 256 bits.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rand::{TryRng, rngs::SysRng};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// What every API token begins with, so that people and secret scanners recognise one.
pub const TOKEN_PREFIX: &str = "rct_";

/// A secret, before it is handed out or as it was received. It has no `Display`, so it cannot slip into a log.
#[derive(Debug, Clone)]
pub struct BearerSecret(SecretString);

impl BearerSecret {
    /// A new secret for a session.
    pub fn for_session() -> Self {
        Self(URL_SAFE_NO_PAD.encode(random::<32>()).into())
    }

    /// A new secret for an API token.
    pub fn for_token() -> Self {
        Self(format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(random::<32>())).into())
    }

    /// What somebody presents as a secret.
    pub fn received(text: &str) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that hands it out.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// What is stored and searched for.
    pub fn digest(&self) -> Vec<u8> {
        Sha256::digest(self.expose().as_bytes()).to_vec()
    }
}

/// Random bytes from the operating system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).expect("an operating system that runs a server has random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_have_256_bits() {
        let (one, two) = (BearerSecret::for_session(), BearerSecret::for_session());
        assert_ne!(one.expose(), two.expose());
        assert_eq!(URL_SAFE_NO_PAD.decode(one.expose()).unwrap().len(), 32);
        let token = BearerSecret::for_token();
        assert_eq!(URL_SAFE_NO_PAD.decode(token.expose().strip_prefix("rct_").unwrap()).unwrap().len(), 32);
    }

    #[test]
    fn the_digest_is_sha_256() {
        let digest = BearerSecret::received("abc").digest();
        assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf], "FIPS 180-4, example B.1");
    }

    #[test]
    fn debugging_shows_nothing() {
        assert!(!format!("{:?}", BearerSecret::received("hunter2")).contains("hunter2"));
    }
}
