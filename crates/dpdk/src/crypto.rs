//! Symmetric work by DPDK's crypto devices (cryptodev): TLS 1.3 records sealed
//! and opened in place.
//!
//! The devices that Debian's DPDK has without a card are software: `crypto_openssl`
//! and, by Intel's multi-buffer library, `crypto_aesni_mb`. A card's engine is
//! reached by the same calls.
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use dpdk_sys as sys;

use crate::batch::Batch;
use crate::live::{Live, NotRunning};
use crate::mbuf::Mbuf;
use crate::port::HOTPLUG;
use crate::{errno, log};

/// Bytes of a record's header: content type, version, length (RFC 8446, 5.1).
/// They are authenticated and not encrypted.
pub const RECORD_HEADER: usize = sys::HNLB_RECORD_HEADER as usize;
/// Bytes of the tag behind the text.
pub const RECORD_TAG: usize = sys::HNLB_RECORD_TAG as usize;
/// A record's nonce: the sequence number, combined with the key's own 12 bytes.
pub type Nonce = [u8; sys::HNLB_RECORD_NONCE as usize];

/// Records of one call of [`CryptoDevice::process`].
pub const MOST_RECORDS: usize = 32;
/// Sessions of a device.
const SESSIONS: u32 = 64;
/// Operations that a device's queue holds.
const DESCRIPTORS: u32 = 256;
/// How often a device may say that nothing is done before it counts as broken.
const PATIENCE: u32 = 1 << 28;

/// Numbers the pools of all devices.
static DEVICES: AtomicU32 = AtomicU32::new(0);

/// An AEAD of TLS 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aead {
    /// AES in Galois/counter mode, with a key of 16 or 32 bytes.
    AesGcm,
    /// RFC 8439, with a key of 32 bytes.
    ChaCha20Poly1305,
}

/// What a session does with records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Encrypts the text and writes the tag.
    Seal,
    /// Checks the tag and decrypts the text.
    Open,
}

/// A crypto device can't be used, or a record is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// EAL does not run.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// The device did not start.
    #[error("crypto device '{device}': {reason}")]
    Device {
        /// Its name, as in `crypto_openssl`.
        device: String,
        /// DPDK's reason.
        reason: String,
    },
    /// The device does not know the algorithm, or not with such a key.
    #[error("crypto device '{device}' has no {aead:?} with a key of {key} bytes: {reason}")]
    Session {
        /// The device's name.
        device: String,
        /// The algorithm.
        aead: Aead,
        /// Bytes of the key.
        key: usize,
        /// DPDK's reason.
        reason: String,
    },
    /// The session was made by another device.
    #[error("the session belongs to another crypto device")]
    Foreign,
    /// More records than nonces or than [`MOST_RECORDS`].
    #[error("{records} records and {nonces} nonces; as many of both are needed, at most 32")]
    Count {
        /// Records.
        records: usize,
        /// Nonces.
        nonces: usize,
    },
    /// A record that is several segments, or shorter than its header and tag.
    #[error("record {0} must be one segment and at least as long as its header and tag")]
    Record(usize),
    /// The device did not do its work: for [`Operation::Open`], a tag is wrong.
    #[error("{0} records failed")]
    Failed(usize),
    /// The device keeps records for good; it is not asked again.
    #[error("the crypto device has kept records and does not return them")]
    Stuck,
}

#[derive(Debug)]
struct Device {
    id: u8,
    name: String,
    sessions: NonNull<sys::rte_mempool>,
    /// It keeps records for good: nothing that it may still reach is freed.
    stuck: AtomicBool,
    _live: Live,
}

// SAFETY: sessions are made and freed by calls that DPDK allows any thread; a
// mempool may be used by any thread at once.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Drop for Device {
    fn drop(&mut self) {
        let _one = HOTPLUG.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: each session and the queue hold this, so that none is left;
        // the pool has all of its sessions back.
        unsafe {
            sys::hnlb_crypto_stop(self.id);
            sys::rte_mempool_free(self.sessions.as_ptr());
        }
    }
}

/// A key in a device. Dropped, the device forgets it.
#[derive(Debug)]
pub struct Session {
    session: NonNull<std::ffi::c_void>,
    device: Arc<Device>,
}

// SAFETY: a session is read by the device's queue and belongs to no thread.
unsafe impl Send for Session {}

impl Drop for Session {
    fn drop(&mut self) {
        if self.device.stuck.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: a live session of this device, which has given back every
        // operation that uses it: `process` returns no earlier.
        unsafe { sys::rte_cryptodev_sym_session_free(self.device.id, self.session.as_ptr()) };
    }
}

/// A running device with its one queue pair.
#[derive(Debug)]
pub struct CryptoDevice {
    ops: Vec<NonNull<sys::rte_crypto_op>>,
    pool: NonNull<sys::rte_mempool>,
    device: Arc<Device>,
}

// SAFETY: the queue pair and the operations have one user, who may be on any thread.
unsafe impl Send for CryptoDevice {}

impl CryptoDevice {
    /// Starts the device `driver`, for instance `crypto_openssl` or `crypto_aesni_mb`.
    ///
    /// # Errors
    /// DPDK has no such driver, or no memory.
    pub fn start(driver: &str) -> Result<Self, CryptoError> {
        let live = Live::new()?;
        let number = DEVICES.fetch_add(1, Ordering::Relaxed);
        let name = format!("{driver}_{number}");
        let fail = |reason| CryptoError::Device { device: driver.to_owned(), reason };
        let text = |text: String| {
            CString::new(text).map_err(|_| fail("the name has a NUL byte".to_owned()))
        };
        let (device, sessions_name, ops_name) =
            (text(name.clone())?, text(format!("cs_{number}"))?, text(format!("co_{number}"))?);
        let one = HOTPLUG.lock().unwrap_or_else(PoisonError::into_inner);
        let started = log::explained(|| {
            // SAFETY: EAL runs (`live`), `device` is a C string.
            let id = unsafe { sys::hnlb_crypto_start(device.as_ptr(), DESCRIPTORS) };
            u8::try_from(id).map_err(|_| id)
        });
        drop(one);
        let id = started.map_err(|(code, log)| fail(log::with_log(errno::text(code), &log)))?;
        // SAFETY: a running device and a C string.
        let sessions = unsafe { sys::hnlb_crypto_sessions(id, sessions_name.as_ptr(), SESSIONS) };
        let Some(sessions) = NonNull::new(sessions) else {
            // SAFETY: the device runs, and nothing uses it.
            unsafe { sys::hnlb_crypto_stop(id) };
            return Err(fail(errno::text(errno::last())));
        };
        let device = Arc::new(Device {
            id,
            name: driver.to_owned(),
            sessions,
            stuck: AtomicBool::new(false),
            _live: live,
        });
        // SAFETY: EAL runs, `ops_name` is a C string.
        let pool = unsafe { sys::hnlb_crypto_ops(ops_name.as_ptr(), MOST_RECORDS as u32 * 2) };
        let pool = NonNull::new(pool).ok_or_else(|| fail(errno::text(errno::last())))?;
        let mut this = Self { ops: Vec::new(), pool, device };
        this.ops = this.take_ops().ok_or_else(|| fail("no operations".to_owned()))?;
        Ok(this)
    }

    /// The driver's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// Gives the device a key.
    ///
    /// # Errors
    /// The device does not know the algorithm, or has no room for a session.
    pub fn session(
        &self,
        aead: Aead,
        operation: Operation,
        key: &[u8],
    ) -> Result<Session, CryptoError> {
        let kind = match aead {
            Aead::AesGcm => sys::HNLB_AEAD_AES_GCM,
            Aead::ChaCha20Poly1305 => sys::HNLB_AEAD_CHACHA20_POLY1305,
        };
        let made = log::explained(|| {
            let (seal, len) = (operation == Operation::Seal, key.len().min(64) as u16);
            let sessions = self.device.sessions.as_ptr();
            // SAFETY: a running device and its pool; `len` bytes of the key are
            // read during the call.
            let session = unsafe {
                sys::hnlb_crypto_session(self.device.id, sessions, kind, seal, key.as_ptr(), len)
            };
            NonNull::new(session).ok_or_else(errno::last)
        });
        match made {
            Ok(session) => Ok(Session { session, device: Arc::clone(&self.device) }),
            Err((code, log)) => Err(CryptoError::Session {
                device: self.device.name.clone(),
                aead,
                key: key.len(),
                reason: log::with_log(errno::text(code), &log),
            }),
        }
    }

    /// Seals or opens `records` in place and returns when all are done. Each is
    /// a header of [`RECORD_HEADER`] bytes, the text and [`RECORD_TAG`] bytes.
    ///
    /// # Errors
    /// Before anything is done: a session of another device, a wrong record, too
    /// many of them. Afterwards: how many records failed; their bytes mean nothing.
    pub fn process<const N: usize>(
        &mut self,
        session: &Session,
        records: &mut Batch<N>,
        nonces: &[Nonce],
    ) -> Result<(), CryptoError> {
        if self.is_stuck() {
            return Err(CryptoError::Stuck);
        }
        if !Arc::ptr_eq(&session.device, &self.device) {
            return Err(CryptoError::Foreign);
        }
        if records.len() != nonces.len() || records.len() > self.ops.len() {
            let (records, nonces) = (records.len(), nonces.len());
            return Err(CryptoError::Count { records, nonces });
        }
        let short =
            |record: &Mbuf| !record.is_contiguous() || record.len() < RECORD_HEADER + RECORD_TAG;
        if let Some(at) = records.iter().position(short) {
            return Err(CryptoError::Record(at));
        }
        for ((op, record), nonce) in self.ops.iter().zip(&mut *records).zip(nonces) {
            // SAFETY: the operation is ours and idle; the record is one segment
            // that is long enough, borrowed for the call, after which no
            // operation is in the device.
            unsafe {
                sys::hnlb_crypto_op_record(
                    op.as_ptr(),
                    session.session.as_ptr(),
                    record.as_raw(),
                    nonce.as_ptr(),
                );
            }
        }
        let outcome = self.run(records.len());
        if outcome == Err(CryptoError::Stuck) {
            // The device may still write to them.
            records.drain().for_each(|record| {
                let _ = record.into_raw();
            });
        }
        outcome
    }

    fn is_stuck(&self) -> bool {
        self.device.stuck.load(Ordering::Relaxed)
    }

    /// Passes the first `count` operations through the device.
    fn run(&mut self, count: usize) -> Result<(), CryptoError> {
        let (mut sent, mut back, mut failed, mut idle) = (0, 0, 0, 0_u32);
        let mut done = [std::ptr::null_mut(); MOST_RECORDS];
        while back < count {
            let rest = self.ops.get_mut(sent..count).unwrap_or_default();
            if !rest.is_empty() {
                let ops = rest.as_mut_ptr().cast::<*mut sys::rte_crypto_op>();
                // SAFETY: as many prepared operations as are said; a reference
                // that is never null has the layout of its pointer.
                let taken =
                    unsafe { sys::hnlb_crypto_enqueue(self.device.id, ops, rest.len() as u16) };
                sent += usize::from(taken);
            }
            // SAFETY: room for `MOST_RECORDS` pointers.
            let came = unsafe {
                let most = MOST_RECORDS as u16;
                sys::hnlb_crypto_dequeue(self.device.id, done.as_mut_ptr(), most)
            };
            let ended = done.get(..usize::from(came)).unwrap_or_default();
            // SAFETY: the device has given these operations back.
            failed += ended.iter().filter(|op| unsafe { !sys::hnlb_crypto_op_done(**op) }).count();
            back += ended.len();
            idle = if came > 0 { 0 } else { idle + 1 };
            if idle == PATIENCE {
                return self.give_up();
            }
        }
        if failed > 0 { Err(CryptoError::Failed(failed)) } else { Ok(()) }
    }

    /// The device holds records: it and its operations must never go away.
    #[cold]
    fn give_up(&mut self) -> Result<(), CryptoError> {
        self.device.stuck.store(true, Ordering::Relaxed);
        std::mem::forget(Arc::clone(&self.device));
        Err(CryptoError::Stuck)
    }

    fn take_ops(&self) -> Option<Vec<NonNull<sys::rte_crypto_op>>> {
        let mut ops = [std::ptr::null_mut(); MOST_RECORDS];
        // SAFETY: a live pool and room for as many pointers.
        let taken = unsafe {
            let (pool, most) = (self.pool.as_ptr(), MOST_RECORDS as u16);
            sys::hnlb_crypto_ops_take(pool, ops.as_mut_ptr(), most)
        };
        taken.then(|| ops.into_iter().filter_map(NonNull::new).collect())
    }
}

impl Drop for CryptoDevice {
    fn drop(&mut self) {
        if self.is_stuck() {
            return;
        }
        for op in &self.ops {
            // SAFETY: the operation is ours, and no device has it.
            unsafe { sys::hnlb_crypto_op_free(op.as_ptr()) };
        }
        // SAFETY: all operations are back in the pool.
        unsafe { sys::rte_mempool_free(self.pool.as_ptr()) };
    }
}
