//! The process that has the keys: it reads files that it is told of, and signs.
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::sign::SigningKey;

use super::frame::{Answer, Loaded, Question, receive, send};
use super::{LoadError, read};

/// The ways in which keys may sign, those of a kind by preference.
const SCHEMES: [SignatureScheme; 10] = [
    SignatureScheme::ED25519,
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA256,
];

/// Keys by name.
#[derive(Default)]
struct Held {
    keys: HashMap<u64, Arc<dyn SigningKey>>,
    names: u64,
}

/// Reads keys and signs with them for whoever is at the other end of `link`, until that has
/// gone.
///
/// # Errors
/// The socket fails.
pub fn serve(link: &UnixStream) -> io::Result<()> {
    match answer_all(link) {
        // It has gone before it read an answer.
        Err(error) if has_gone(&error) => Ok(()),
        ended => ended,
    }
}

fn has_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

fn answer_all(link: &UnixStream) -> io::Result<()> {
    let mut held = Held::default();
    while let Some(message) = receive(link)? {
        if let Some(answer) = held.answer(Question::read(&message)) {
            send(link, &answer.write())?;
        }
    }
    Ok(())
}

impl Held {
    fn answer(&mut self, question: Option<Question<'_>>) -> Option<Answer> {
        Some(match question {
            Some(Question::Load(path)) => self.load(path),
            Some(Question::Sign { key, scheme, message }) => self.sign(key, scheme, message),
            Some(Question::Forget { key }) => {
                self.keys.remove(&key);
                return None;
            }
            None => Answer::Refused("this is no question".to_owned()),
        })
    }

    fn load(&mut self, path: &Path) -> Answer {
        let opened = File::open(path).map_err(|error| LoadError::Read(error.to_string()));
        match opened.and_then(read) {
            Err(error) => Answer::NoKey(error),
            Ok(own) => {
                self.names += 1;
                let can = |scheme: &SignatureScheme| own.choose_scheme(&[*scheme]).is_some();
                let loaded = Loaded {
                    key: self.names,
                    algorithm: own.algorithm(),
                    schemes: SCHEMES.into_iter().filter(can).collect(),
                    public: own.public_key().map(|own| own.to_vec()),
                };
                self.keys.insert(self.names, own);
                Answer::Loaded(loaded)
            }
        }
    }

    fn sign(&self, key: u64, scheme: SignatureScheme, message: &[u8]) -> Answer {
        let signer = self.keys.get(&key).and_then(|own| own.choose_scheme(&[scheme]));
        match signer.map(|own| own.sign(message)) {
            Some(Ok(signature)) => Answer::Signed(signature),
            Some(Err(error)) => Answer::Refused(error.to_string()),
            None => Answer::Refused("the key isn't known, or can't sign so".to_owned()),
        }
    }
}
