//! Where a capture is written to: a file that gets its name when it is whole.
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::CaptureError;

/// An output that is not whole yet.
pub(crate) enum Output {
    /// A file beside `path`, which takes its name in the end.
    Beside { file: BufWriter<NamedTempFile>, path: PathBuf },
    /// What cannot be replaced: standard output, a pipe, a device.
    Stream(BufWriter<Box<dyn Write + Send>>),
}

impl Output {
    /// An output for `path`; `-` is standard output.
    ///
    /// # Errors
    /// The file can't be made, or `path` is one of `read`, under this name or another.
    pub(crate) fn create(path: &Path, read: &[&Path]) -> Result<Self, CaptureError> {
        if path == Path::new("-") {
            return Ok(Self::Stream(BufWriter::new(Box::new(io::stdout()))));
        }
        let io = |source| CaptureError::Io { path: path.to_owned(), source };
        let present = fs::metadata(path).ok();
        if let Some(other) = read.iter().find(|other| is_same(present.as_ref(), other)) {
            let (path, other) = (path.to_owned(), PathBuf::from(other));
            return Err(CaptureError::SameFile { path, other });
        }
        if present.as_ref().is_some_and(|file| !file.is_file()) {
            let file = File::options().write(true).open(path).map_err(io)?;
            return Ok(Self::Stream(BufWriter::new(Box::new(file))));
        }
        // A symbolic link stays, and what it points at is replaced.
        let path =
            if present.is_some() { fs::canonicalize(path).map_err(io)? } else { path.into() };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut builder = tempfile::Builder::new();
        builder.prefix(".hnlb-").suffix(".part");
        // As of a file made in the usual way; the umask applies.
        builder.permissions(Permissions::from_mode(0o666));
        let file = builder.tempfile_in(directory.unwrap_or(Path::new("."))).map_err(io)?;
        Ok(Self::Beside { file: BufWriter::new(file), path })
    }

    /// Everything is written: the file takes its name.
    ///
    /// # Errors
    /// What is still in memory can't be written.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Stream(mut stream) => stream.flush(),
            Self::Beside { file, path } => {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.persist(path).map(drop).map_err(|error| error.error)
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Beside { file, .. } => file.write(bytes),
            Self::Stream(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Beside { file, .. } => file.flush(),
            Self::Stream(stream) => stream.flush(),
        }
    }
}

/// Whether `other` is the file of `present`: by device and inode, so that links of
/// either kind hide nothing.
fn is_same(present: Option<&fs::Metadata>, other: &Path) -> bool {
    let other = if other == Path::new("-") { Path::new("/dev/stdin") } else { other };
    let id = |file: &fs::Metadata| (file.is_file(), file.dev(), file.ino());
    let other = fs::metadata(other).ok();
    present.zip(other.as_ref()).is_some_and(|(one, other)| one.is_file() && id(one) == id(other))
}
