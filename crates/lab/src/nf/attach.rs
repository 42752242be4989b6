//! By what the functions are attached.
use std::path::Path;

use clap::ValueEnum;

/// A transport between the server and the processes of the functions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Attach {
    /// vhost-user.
    #[default]
    Vhost,
    /// memif.
    Memif,
    /// Rings: the functions are threads of the server, so that none can be killed or stopped.
    Ring,
}

impl Attach {
    /// The attachment of function `number`, whose socket is in `dir`.
    pub(super) fn of(self, dir: &Path, number: usize) -> String {
        let kind = match self {
            Self::Vhost => "vhost",
            Self::Memif => "memif",
            Self::Ring => return "ring".to_owned(),
        };
        format!("{kind}:{}", dir.join(format!("nf{number}.sock")).display())
    }
}
