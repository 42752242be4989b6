//! The files of the API over TCP: certificate, key and tokens.
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::tokens::Tokens;

/// Bits of the permissions that a file may not have: the tokens' are for their owner
/// alone, the key's for its group as well (ssl-cert).
const NOT_OTHERS: u32 = 0o007;
const OWNER_ONLY: u32 = 0o077;
/// Bytes of a file at most.
const LARGEST: u64 = 1 << 20;

/// Why the API can't be served over TCP.
#[derive(Debug, thiserror::Error)]
#[error("[api] {key} = {}: {why}", path.display())]
pub struct CredentialsError {
    key: &'static str,
    path: PathBuf,
    why: String,
}

/// What the files hold.
#[derive(PartialEq, Eq)]
pub(crate) struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    tokens: Vec<u8>,
}

/// What clients are shown, and what they must show.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) tls: Arc<ServerConfig>,
    pub(crate) tokens: Arc<Tokens>,
}

/// The paths, once all are known.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    certificate: PathBuf,
    key: PathBuf,
    tokens: PathBuf,
}

impl Paths {
    /// Those of `api`, if it names all.
    pub(crate) fn of(api: &config::Api) -> Option<Self> {
        let config::Api { certificate, key, tokens, .. } = api.clone();
        Some(Self { certificate: certificate?, key: key?, tokens: tokens? })
    }

    /// Reads the files.
    pub(crate) fn read(&self) -> Result<Files, CredentialsError> {
        Ok(Files {
            certificate: read("certificate", &self.certificate, 0)?,
            key: read("key", &self.key, NOT_OTHERS)?,
            tokens: read("tokens", &self.tokens, OWNER_ONLY)?,
        })
    }

    /// What `files` mean.
    pub(crate) fn understand(&self, files: &Files) -> Result<Credentials, CredentialsError> {
        let wrong =
            |key, path: &Path, why: String| CredentialsError { key, path: path.to_owned(), why };
        let of_certificate = |why| wrong("certificate", &self.certificate, why);
        let of_key = |why| wrong("key", &self.key, why);
        let chain = CertificateDer::pem_slice_iter(&files.certificate);
        let chain = chain.collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| of_certificate(format!("not in PEM: {error}")))?;
        if chain.is_empty() {
            return Err(of_certificate("there is no certificate (PEM) in it".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&files.key)
            .map_err(|error| of_key(format!("there is no private key (PEM) in it: {error}")))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let mut tls = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| of_key(error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| of_key(format!("it does not fit the certificate: {error}")))?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let text = String::from_utf8_lossy(&files.tokens);
        let tokens = Tokens::parse(&text).map_err(|why| wrong("tokens", &self.tokens, why))?;
        Ok(Credentials { tls: Arc::new(tls), tokens: Arc::new(tokens) })
    }
}

/// Whether the API can be served over TCP as `api` says.
///
/// # Errors
/// A file is missing, readable for others, or not what it should be.
pub fn check(api: &config::Api) -> Result<(), CredentialsError> {
    let Some(paths) = Paths::of(api) else { return Ok(()) };
    paths.understand(&paths.read()?).map(drop)
}

/// The file's bytes, if it is a file and has none of the permissions `denied`.
fn read(key: &'static str, path: &Path, denied: u32) -> Result<Vec<u8>, CredentialsError> {
    let wrong = |why: String| CredentialsError { key, path: path.to_owned(), why };
    // A pipe would be waited for.
    let found = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if !found.is_file() {
        return Err(wrong("not a file".to_owned()));
    }
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let meta = file.metadata().map_err(|error| wrong(error.to_string()))?;
    let own = nix::unistd::geteuid().as_raw();
    if denied != 0 && ![0, own].contains(&meta.uid()) {
        let text = "it belongs to another user, who could change it; chown it to the user that HNLB runs as";
        return Err(wrong(text.to_owned()));
    }
    if meta.mode() & denied != 0 {
        let right = if denied == OWNER_ONLY { "0600" } else { "0640" };
        let text = format!("other users may read it; chmod {right} {}", path.display());
        return Err(wrong(text));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    Ok(bytes)
}

/// Files with these tokens in a directory, and what `[api]` says of them.
#[cfg(test)]
pub(crate) fn files_for_tests(text: &str) -> (tempfile::TempDir, config::Api) {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let names = vec!["localhost".to_owned()];
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names).unwrap();
    let put = |name: &str, text: String, mode| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Some(path)
    };
    let api = config::Api {
        certificate: put("cert.pem", cert.pem(), 0o644),
        key: put("key.pem", signing_key.serialize_pem(), 0o640),
        tokens: put("tokens", text.to_owned(), 0o600),
        ..config::Api::default()
    };
    (dir, api)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn files() -> (tempfile::TempDir, config::Api) {
        files_for_tests(&format!("viewer {}\n", "a".repeat(32)))
    }

    #[test]
    fn right_files_are_taken() {
        let (_dir, api) = files();
        check(&api).unwrap();
        check(&config::Api::default()).unwrap();
    }

    #[test]
    fn files_that_others_may_read_are_refused() {
        let (_dir, api) = files();
        for (path, mode) in
            [(&api.tokens, 0o604), (&api.tokens, 0o640), (&api.tokens, 0o620), (&api.key, 0o644)]
        {
            let path = path.as_ref().unwrap();
            let before = fs::metadata(path).unwrap().permissions();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            let error = check(&api).unwrap_err().to_string();
            assert!(error.contains("chmod") && error.contains("[api]"), "{error}");
            fs::set_permissions(path, before).unwrap();
        }
        check(&api).unwrap();
    }

    #[test]
    fn wrong_files_are_refused_by_name() {
        let (dir, api) = files();
        let other_key = files();
        let cases = [
            (config::Api { key: other_key.1.key.clone(), ..api.clone() }, "does not fit"),
            (config::Api { key: api.certificate.clone(), ..api.clone() }, "key"),
            (config::Api { certificate: api.key.clone(), ..api.clone() }, "no certificate"),
            (config::Api { tokens: Some(dir.path().join("none")), ..api.clone() }, "No such file"),
            (config::Api { tokens: Some(dir.path().to_owned()), ..api.clone() }, "not a file"),
        ];
        for (api, why) in cases {
            let error = check(&api).unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
