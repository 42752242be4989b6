//! An authority, two certificates of the services, and one of a client, made by openssl.
use std::path::{Path, PathBuf};

use crate::{Lab, LabError};

/// Where they are.
pub(crate) struct Certificates {
    dir: PathBuf,
}

/// The names of the two certificates; clients that ask for another get the first.
pub(super) const NAMES: [&str; 2] = ["www.lab", "a.lab"];

impl Certificates {
    /// The name of the one that clients get who ask for no other.
    pub(crate) const FIRST: &str = NAMES[0];

    pub(crate) fn new(lab: &Lab) -> Result<Self, LabError> {
        let dir = lab.dir().join("certificates");
        std::fs::create_dir_all(&dir).map_err(LabError::io(format!("make {}", dir.display())))?;
        let own = Self { dir };
        let at = own.dir.display();
        own.shell(
            lab,
            &format!(
                "cd {at} && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
                 -days 30 -subj '/CN=the lab' -keyout ca.key -out ca.crt"
            ),
        )?;
        for name in NAMES {
            own.renew(lab, name)?;
        }
        own.renew(lab, super::sealed::NAME)?;
        own.sign(lab, "client", "clientAuth")?;
        own.shell(
            lab,
            &format!(
                "cd {at} && openssl x509 -in {0}.crt -noout -fingerprint -sha256 | cut -d= -f2 > {0}.pin",
                super::sealed::NAME
            ),
        )?;
        Ok(own)
    }

    /// Makes another key and certificate for `name`, in the place of the ones before.
    pub(super) fn renew(&self, lab: &Lab, name: &str) -> Result<(), LabError> {
        self.sign(lab, name, "serverAuth")
    }

    fn sign(&self, lab: &Lab, name: &str, usage: &str) -> Result<(), LabError> {
        let at = self.dir.display();
        self.shell(
            lab,
            &format!(
                "cd {at} && umask 077 && \
                 openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} \
                 -addext subjectAltName=DNS:{name} -addext extendedKeyUsage={usage} \
                 -keyout {name}.new -out {name}.csr && \
                 openssl x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -days 30 \
                 -copy_extensions copy -out {name}.crt.new && \
                 mv {name}.new {name}.key && mv {name}.crt.new {name}.crt"
            ),
        )
    }

    fn shell(&self, lab: &Lab, script: &str) -> Result<(), LabError> {
        lab.exec("c1", &["sh", "-c", script])?.success().map(|_| ())
    }

    /// The authority.
    pub(super) fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// The chain and key of `name`.
    pub(crate) fn of(&self, name: &str) -> [PathBuf; 2] {
        ["crt", "key"].map(|kind| Path::new(&self.dir).join(format!("{name}.{kind}")))
    }

    /// The fingerprint of the certificate of `name`.
    pub(super) fn fingerprint(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.dir.join(format!("{name}.pin")));
        text.unwrap_or_default().trim().to_owned()
    }

    /// The certificates as a service has them.
    pub(crate) fn tables(&self) -> String {
        let table = |name: &str, names: &str| {
            let [chain, key] = self.of(name);
            format!(
                "[[service.tls.certificate]]\n{names}chain = \"{}\"\nkey = \"{}\"\n",
                chain.display(),
                key.display()
            )
        };
        table(NAMES[0], "") + &table(NAMES[1], "names = [\"a.lab\"]\n")
    }
}
