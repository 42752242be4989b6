//! What a TLS client asks for before anything is encrypted: server name and protocols
//! (RFC 8446 section 4.1.2, RFC 6066 section 3, RFC 7301). With ECH the name is the
//! outer one.
use arrayvec::ArrayVec;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const HOST_NAME: u8 = 0;
/// Bytes of a record, at most (RFC 8446 section 5.1).
const MAX_RECORD: usize = 1 << 14;
/// Bytes of a hello that are read, at most.
const MAX_HELLO: usize = 1 << 14;

/// A ClientHello as far as it says where the connection goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The server name, without a dot at its end.
    pub name: Option<ArrayVec<u8, 255>>,
    /// The first byte is the length of the first protocol, which follows, and so on.
    alpn: ArrayVec<u8, 255>,
}

/// Why bytes are no ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloError {
    /// The bytes are no handshake record of TLS.
    Record,
    /// The handshake does not begin with a ClientHello.
    NotHello,
    /// The hello is longer than 16 KiB.
    TooLong,
    /// A length within the hello is none that its field may have, or reaches beyond what
    /// it is in.
    Length,
    /// An extension is there twice.
    Twice,
    /// The server name is no host name.
    Name,
    /// The protocols take more than 255 bytes.
    Protocols,
}

enum Stop {
    Incomplete,
    Bad(HelloError),
}

/// What must be true of a length.
fn check(is_right: bool) -> Result<(), Stop> {
    if is_right { Ok(()) } else { Err(HelloError::Length.into()) }
}

impl From<HelloError> for Stop {
    fn from(error: HelloError) -> Self {
        Self::Bad(error)
    }
}

impl Hello {
    /// Reads the hello at the beginning of `bytes`, a client's whole stream so far, over
    /// any number of records. `None`: the hello goes on behind them.
    ///
    /// # Errors
    /// Why the bytes are no hello.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, HelloError> {
        let mut records = Records { rest: bytes, left: 0 };
        match records.hello() {
            Ok(hello) => Ok(Some(hello)),
            Err(Stop::Incomplete) => Ok(None),
            Err(Stop::Bad(error)) => Err(error),
        }
    }

    /// The protocols that the client offers, in its order.
    pub fn protocols(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.alpn.as_slice();
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first()?;
            let (protocol, behind) = behind.split_at_checked((*length).into())?;
            rest = behind;
            Some(protocol)
        })
    }
}

/// The bytes of handshake messages, without the headers of their records.
struct Records<'a> {
    rest: &'a [u8],
    /// Bytes of the present record that are still to come.
    left: usize,
}

impl Records<'_> {
    fn byte(&mut self) -> Result<u8, Stop> {
        while self.left == 0 {
            self.record()?;
        }
        let (byte, rest) = self.rest.split_first().ok_or(Stop::Incomplete)?;
        self.rest = rest;
        self.left -= 1;
        Ok(*byte)
    }

    fn record(&mut self) -> Result<(), Stop> {
        let wrong = |at: usize, byte: u8| match at {
            0 => byte != HANDSHAKE,
            1 => byte != 3,
            _ => false,
        };
        let front = self.rest.iter().take(2).enumerate();
        if front.into_iter().any(|(at, byte)| wrong(at, *byte)) {
            return Err(HelloError::Record.into());
        }
        let ([_, _, _, a, b], rest) = self.rest.split_first_chunk().ok_or(Stop::Incomplete)?;
        let length = usize::from(u16::from_be_bytes([*a, *b]));
        if length == 0 || length > MAX_RECORD {
            return Err(HelloError::Record.into());
        }
        (self.rest, self.left) = (rest, length);
        Ok(())
    }

    fn hello(&mut self) -> Result<Hello, Stop> {
        if self.byte()? != CLIENT_HELLO {
            return Err(HelloError::NotHello.into());
        }
        let mut all = MAX_HELLO;
        let length = self.number(3, &mut all)?;
        if length > MAX_HELLO {
            return Err(HelloError::TooLong.into());
        }
        let mut all = length;
        self.skip(2 + 32, &mut all)?;
        let session = self.number(1, &mut all)?;
        check(session <= 32)?;
        self.skip(session, &mut all)?;
        let suites = self.number(2, &mut all)?;
        check(suites >= 2 && suites % 2 == 0)?;
        self.skip(suites, &mut all)?;
        let compressions = self.number(1, &mut all)?;
        check(compressions > 0)?;
        self.skip(compressions, &mut all)?;
        let mut hello = Hello::default();
        if all == 0 {
            return Ok(hello);
        }
        let mut extensions = self.inner(2, &mut all)?;
        if all > 0 {
            return Err(HelloError::Length.into());
        }
        let mut seen = [false; 2];
        while extensions > 0 {
            let kind = self.number(2, &mut extensions)?;
            let mut own = self.inner(2, &mut extensions)?;
            let place = match kind as u16 {
                SERVER_NAME => Some(0),
                ALPN => Some(1),
                _ => None,
            };
            if let Some(seen) = place.and_then(|place| seen.get_mut(place))
                && std::mem::replace(seen, true)
            {
                return Err(HelloError::Twice.into());
            }
            match place {
                Some(0) => hello.name = self.name(&mut own)?,
                Some(_) => hello.alpn = self.protocols(&mut own)?,
                None => {}
            }
            // The two that are read have nothing behind what was read.
            check(place.is_none() || own == 0)?;
            let mut rest = own;
            self.skip(own, &mut rest)?;
        }
        Ok(hello)
    }

    /// A number of `size` bytes of which `left` has still so many.
    fn number(&mut self, size: usize, left: &mut usize) -> Result<usize, Stop> {
        *left = left.checked_sub(size).ok_or(HelloError::Length)?;
        let mut number = 0;
        for _ in 0..size {
            number = number << 8 | usize::from(self.byte()?);
        }
        Ok(number)
    }

    /// The length of a part that begins with it, and is taken out of what is left.
    fn inner(&mut self, size: usize, left: &mut usize) -> Result<usize, Stop> {
        let length = self.number(size, left)?;
        *left = left.checked_sub(length).ok_or(HelloError::Length)?;
        Ok(length)
    }

    fn skip(&mut self, count: usize, left: &mut usize) -> Result<(), Stop> {
        *left = left.checked_sub(count).ok_or(HelloError::Length)?;
        for _ in 0..count {
            self.byte()?;
        }
        Ok(())
    }

    fn name(&mut self, own: &mut usize) -> Result<Option<ArrayVec<u8, 255>>, Stop> {
        let mut list = self.inner(2, own)?;
        let kind = self.number(1, &mut list)?;
        let length = self.inner(2, &mut list)?;
        if kind != usize::from(HOST_NAME) || list > 0 || length == 0 || length > 255 {
            return Err(HelloError::Name.into());
        }
        let mut name = ArrayVec::new();
        for _ in 0..length {
            let byte = self.byte()?;
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')) {
                return Err(HelloError::Name.into());
            }
            name.push(byte.to_ascii_lowercase());
        }
        if name.last() == Some(&b'.') {
            name.pop();
        }
        Ok(Some(name))
    }

    fn protocols(&mut self, own: &mut usize) -> Result<ArrayVec<u8, 255>, Stop> {
        let mut list = self.inner(2, own)?;
        check(list > 0)?;
        if list > 255 {
            return Err(HelloError::Protocols.into());
        }
        let mut alpn = ArrayVec::new();
        while list > 0 {
            let length = self.inner(1, &mut list)?;
            if length == 0 {
                return Err(HelloError::Length.into());
            }
            alpn.push(length as u8);
            for _ in 0..length {
                alpn.push(self.byte()?);
            }
        }
        Ok(alpn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes(), &(data.len() as u16).to_be_bytes()[..], data].concat()
    }

    fn sni(name: &[u8]) -> Vec<u8> {
        let name = [&[0], &(name.len() as u16).to_be_bytes()[..], name].concat();
        extension(0, &[&(name.len() as u16).to_be_bytes()[..], &name].concat())
    }

    fn hello(extensions: &[u8], record: usize) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([2, 1, 1, 0, 4, 0x0a, 0x0a, 0x13, 1, 1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        let mut message = vec![1, 0];
        message.extend((body.len() as u16).to_be_bytes());
        message.extend(body);
        let records = message
            .chunks(record)
            .map(|part| [&[22, 3, 1], &(part.len() as u16).to_be_bytes()[..], part].concat());
        records.collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_hello_is_read_over_any_records_and_never_before_it_is_whole() {
        let alpn = extension(
            16,
            &[0, 12, 2, b'h', b'2', 8, b'h', b't', b't', b'p', b'/', b'1', b'.', b'1'],
        );
        let all = [extension(0x1a1a, &[0]), sni(b"WWW.Example"), extension(51, &[9; 1300]), alpn];
        for record in [1, 7, 300, 4000] {
            let bytes = hello(&all.concat(), record);
            let read = Hello::parse(&bytes).unwrap().unwrap();
            assert_eq!(read.name.as_deref(), Some(&b"www.example"[..]));
            assert_eq!(read.protocols().collect::<Vec<_>>(), [&b"h2"[..], b"http/1.1"]);
            for cut in 0..bytes.len() {
                assert_eq!(Hello::parse(&bytes[..cut]), Ok(None), "{cut}");
            }
        }
    }

    #[test]
    fn what_is_no_hello_is_refused_by_name() {
        let twice = [sni(b"a"), sni(b"b")].concat();
        assert_eq!(Hello::parse(b"GET / HTTP/1.1"), Err(HelloError::Record));
        assert_eq!(Hello::parse(&hello(&twice, 999)), Err(HelloError::Twice));
        assert_eq!(Hello::parse(&hello(&sni(b"a b"), 999)), Err(HelloError::Name));
        assert_eq!(Hello::parse(&hello(&[0, 0, 0, 9, 1], 999)), Err(HelloError::Length));
        assert_eq!(Hello::parse(&[22, 3, 1, 0, 1, 2]), Err(HelloError::NotHello));
    }
}
