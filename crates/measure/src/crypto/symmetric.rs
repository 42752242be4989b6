//! How fast each engine seals records.
use dpdk::Mempool;

use super::engine::{BURST, Cipher, DRIVERS, Device, Engine, Inline, Rustls};
use super::options::{CryptoBenchError, Options};
use super::records::Times;
use super::row::{Row, What};

/// An engine with a cipher, and its times by size.
pub(super) struct Contestant {
    engine: Box<dyn Engine>,
    cipher: Cipher,
    times: Vec<Times>,
}

impl Contestant {
    /// Every engine with every cipher that it has. rustls itself, which seals into
    /// a buffer of its own, is measured with AES-128-GCM.
    pub(super) fn all(options: Options, pool: &Mempool) -> Result<Vec<Self>, CryptoBenchError> {
        let mut engines: Vec<(Box<dyn Engine>, Cipher)> =
            vec![(Box::new(Rustls::new()?), Cipher::Aes128Gcm)];
        for cipher in Cipher::ALL {
            engines.push((Box::new(Inline::new(cipher, 0)?), cipher));
            for driver in DRIVERS {
                if let Some(device) = Device::new(driver, cipher, pool)? {
                    engines.push((Box::new(device), cipher));
                }
            }
        }
        let times = || options.sizes().iter().map(|_| Times::default()).collect();
        let with_times = |(engine, cipher)| Self { engine, cipher, times: times() };
        Ok(engines.into_iter().map(with_times).collect())
    }

    /// One repetition of every size.
    pub(super) fn repeat(&mut self, options: Options) -> Result<(), CryptoBenchError> {
        let point = dpdk::cycles_per_second() / 1000 * options.point_ms();
        for (&bytes, times) in options.sizes().iter().zip(&mut self.times) {
            // The first burst brings text and tables into the caches.
            self.engine.burst(bytes)?;
            let begin = dpdk::cycles();
            let mut bursts = Vec::new();
            while dpdk::cycles() - begin < point {
                bursts.push(self.engine.burst(bytes)?);
            }
            times.add(bursts, BURST as f64);
        }
        Ok(())
    }

    pub(super) fn rows(&self, options: Options) -> impl Iterator<Item = Row> {
        let (engine, cipher) = (self.engine.name(), self.cipher.name());
        let sizes = options.sizes().iter().zip(&self.times);
        sizes.map(move |(&bytes, times)| times.row(What::Symmetric, engine, cipher, bytes))
    }
}
