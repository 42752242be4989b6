//! Keys that another process has: this one knows their names and their public halves.
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

use super::frame::{Answer, Loaded, Question, receive, send};
use super::{LoadError, open};

/// How long an answer may take before the process is taken to be hung.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes a connection to the process.
type Start = Box<dyn Fn() -> io::Result<UnixStream> + Send + Sync>;

/// The process that has the keys.
pub(super) struct Keys {
    start: Start,
    link: Mutex<Link>,
}

/// The connection to the present process.
#[derive(Default)]
struct Link {
    socket: Option<UnixStream>,
    /// How many processes there have been. Each begins without a key.
    processes: u64,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    pub(super) fn new(start: Start) -> Self {
        Self { start, link: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, of a new process if there is none; returns the answer, and whose it is.
    fn ask(&self, question: &Question<'_>) -> io::Result<(Answer, u64)> {
        let mut link = self.lock();
        let socket = match link.socket.take() {
            Some(socket) => socket,
            None => {
                let socket = (self.start)()?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                link.processes += 1;
                socket
            }
        };
        // After an error the process is given up: a late answer would be taken for the next.
        let answer = exchange(&socket, question)?;
        link.socket = Some(socket);
        Ok((answer, link.processes))
    }

    /// Tells the process that a key is not needed any more, if it is still the one that has
    /// it. If that fails, the key is there for longer.
    fn forget(&self, Named { process, key }: Named) {
        let link = self.lock();
        if let Some(socket) = link.socket.as_ref().filter(|_| link.processes == process) {
            let _ = send(socket, &Question::Forget { key }.write());
        }
    }
}

fn exchange(link: &UnixStream, question: &Question<'_>) -> io::Result<Answer> {
    send(link, &question.write())?;
    let answer = receive(link)?.and_then(|message| Answer::read(&message));
    answer.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}

/// Reads the key at `path` into the process.
pub(super) fn load(keys: &Arc<Keys>, path: &Path) -> Result<Arc<dyn SigningKey>, LoadError> {
    let (Loaded { key, algorithm, schemes, public }, process) = ask_to_load(keys, path)?;
    let named = Mutex::new(Named { process, key });
    let (keys, path) = (Arc::clone(keys), path.to_owned());
    let held = Arc::new(Held { keys, path, named, public, schemes });
    Ok(Arc::new(RemoteKey { held, algorithm }))
}

fn ask_to_load(keys: &Keys, path: &Path) -> Result<(Loaded, u64), LoadError> {
    let gone = |why: &dyn fmt::Display| {
        LoadError::Read(format!("the process that has the private keys does not answer: {why}"))
    };
    match keys.ask(&Question::Load(path)) {
        Ok((Answer::Loaded(loaded), process)) => Ok((loaded, process)),
        Ok((Answer::NoKey(error), _)) => Err(error),
        Ok((Answer::Refused(why), _)) => Err(gone(&why)),
        Ok((Answer::Signed(_), _)) => Err(gone(&"it answers something else")),
        Err(error) => Err(gone(&error)),
    }
}

/// What a process calls a key.
#[derive(Clone, Copy, Debug)]
struct Named {
    process: u64,
    key: u64,
}

/// A key in the process.
#[derive(Debug)]
struct Held {
    keys: Arc<Keys>,
    path: PathBuf,
    named: Mutex<Named>,
    public: Option<Vec<u8>>,
    schemes: Vec<SignatureScheme>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.keys.forget(*self.named());
    }
}

impl Held {
    fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sign(&self, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, Error> {
        let mut named = *self.named();
        // The first process may have gone since it was last asked, and the second lacks the
        // key.
        for _ in 0..3 {
            let question = Question::Sign { key: named.key, scheme, message };
            match self.keys.ask(&question) {
                Ok((Answer::Signed(signature), process)) if process == named.process => {
                    return Ok(signature);
                }
                Ok((Answer::Refused(why), process)) if process == named.process => {
                    return Err(Error::General(why));
                }
                Ok((_, process)) if process != named.process => named = self.again()?,
                Ok(_) | Err(_) => {}
            }
        }
        Err(Error::General("the process that has the private keys does not answer".to_owned()))
    }

    /// Reads the key again: another process has taken the place of the one that had it.
    fn again(&self) -> Result<Named, Error> {
        let failed =
            |why: &dyn fmt::Display| Error::General(format!("{}: {why}", self.path.display()));
        open(&self.path).map_err(|error| failed(&error))?;
        let loaded = ask_to_load(&self.keys, &self.path);
        let (loaded, process) = loaded.map_err(|error| failed(&error))?;
        let named = Named { process, key: loaded.key };
        if loaded.public != self.public {
            self.keys.forget(named);
            return Err(failed(&"the file has another key than before; reload the configuration"));
        }
        *self.named() = named;
        Ok(named)
    }
}

#[derive(Debug)]
struct RemoteKey {
    held: Arc<Held>,
    algorithm: SignatureAlgorithm,
}

impl SigningKey for RemoteKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *self.held.schemes.iter().find(|own| offered.contains(own))?;
        Some(Box::new(RemoteSigner { held: Arc::clone(&self.held), scheme }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.held.public.as_deref().map(SubjectPublicKeyInfoDer::from)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.algorithm
    }
}

#[derive(Debug)]
struct RemoteSigner {
    held: Arc<Held>,
    scheme: SignatureScheme,
}

impl Signer for RemoteSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.held.sign(self.scheme, message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}
