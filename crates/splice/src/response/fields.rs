//! The fields of a response's header that say how long the response is.
use super::BadResponse;

/// What the header has said so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields {
    pub(super) minor: u8,
    pub(super) status: u16,
    pub(super) length: Option<u64>,
    pub(super) chunked: bool,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
}

impl Fields {
    /// A line of the header; `is_whole`: nothing of it was left out.
    pub(super) fn take(&mut self, line: &[u8], is_whole: bool) -> Result<(), BadResponse> {
        let colon = line.iter().position(|byte| *byte == b':');
        let Some((name, value)) = colon.and_then(|colon| line.split_at_checked(colon)) else {
            // The name may be longer than what is kept of the line.
            return if is_whole { Err(BadResponse::Field) } else { Ok(()) };
        };
        if name.is_empty() || !name.iter().all(|byte| crate::request::is_token(*byte)) {
            return Err(BadResponse::Field);
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let is = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
        if ["content-length", "transfer-encoding", "connection"].into_iter().all(|own| !is(own)) {
            return Ok(());
        }
        if !is_whole {
            return Err(BadResponse::TooLong);
        }
        if is("content-length") {
            let length = crate::request::decimal(value).filter(|length| *length < 1 << 53);
            if self.length.is_some() || length.is_none() {
                return Err(BadResponse::Length);
            }
            self.length = length;
        } else if is("transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(BadResponse::Chunks);
            }
            self.chunked = true;
        } else {
            for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                self.close |= token.eq_ignore_ascii_case(b"close");
                self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }
}
