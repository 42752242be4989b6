//! What client and server say to each other, and how each sees that the other's part is
//! whole.
use rand::Rng;
use rand::rngs::SmallRng;

/// A response before another one to the same request.
const INTERIM: &str = "HTTP/1.1 103 Early Hints\r\nServer: a\r\n\r\n";

/// One request and its response.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) body: usize,
    pub(crate) chunked: bool,
    pub(crate) answer: usize,
    pub(crate) padding: usize,
    /// Bytes of a field of the response, and whether an interim response is before it.
    pub(crate) answer_padding: usize,
    pub(crate) interim: bool,
}

/// All requests of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    pub(crate) exchanges: Vec<Exchange>,
    /// Whether requests are sent without waiting for responses.
    pub(crate) pipelined: bool,
    /// Whether every request asks for another protocol, which no server speaks.
    pub(crate) upgrading: bool,
    /// What the client sends before anything else; then neither side speaks HTTP.
    pub(crate) hello: Vec<u8>,
    /// What the server sends before anything else; the client waits for it.
    pub(crate) banner: Vec<u8>,
    /// Whether headers of responses are changed on their way.
    pub(crate) changing: bool,
}

/// The byte at `at` of the body number `which`.
fn byte(which: usize, at: usize) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 8) ^ which.wrapping_mul(77)) as u8
}

fn bytes(which: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| byte(which, at)).collect()
}

impl Talk {
    pub(crate) fn random(rng: &mut SmallRng) -> Self {
        let size = |rng: &mut SmallRng| match rng.random_range(0..4) {
            0 => 0,
            1 => rng.random_range(1..200),
            2 => rng.random_range(200..6_000),
            _ => rng.random_range(6_000..60_000),
        };
        let count = rng.random_range(1..7);
        let exchanges = (0..count).map(|_| Exchange {
            body: size(rng),
            chunked: rng.random_bool(0.3),
            answer: size(rng),
            padding: if rng.random_bool(0.2) { rng.random_range(1_000..6_000) } else { 3 },
            answer_padding: if rng.random_bool(0.3) { rng.random_range(1_000..6_000) } else { 3 },
            interim: rng.random_bool(0.2),
        });
        Self {
            exchanges: exchanges.collect(),
            pipelined: rng.random_bool(0.3),
            upgrading: false,
            hello: Vec::new(),
            banner: Vec::new(),
            changing: false,
        }
    }

    /// What the client sends, request by request.
    pub(crate) fn requests(&self) -> Vec<Vec<u8>> {
        if !self.hello.is_empty() {
            let parts = (0..).zip(&self.exchanges).map(|(which, one)| bytes(which, one.body + 1));
            let mut parts: Vec<_> = parts.collect();
            if let Some(first) = parts.first_mut() {
                first.splice(..0, self.hello.iter().copied());
            }
            return parts;
        }
        self.exchanges
            .iter()
            .enumerate()
            .map(|(which, one)| request(which, one, self.upgrading))
            .collect()
    }

    /// What the server answers, response by response.
    pub(crate) fn response(&self, which: usize) -> Vec<u8> {
        let one = &self.exchanges[which];
        if !self.hello.is_empty() {
            return bytes(which + 100, one.answer + 1);
        }
        let old = "X-Frame-Options: ALLOW\r\nServer: smoltcp\r\nConnection: keep-alive, x-hop\r\n\
                   X-Hop: 1\r\n";
        let [before, after] = if self.changing { [old, ""] } else { ["", ""] };
        self.answer(which, one, before, after)
    }

    /// The lengths of a request and of the final response to it, as both were sent.
    pub(crate) fn lengths(&self, which: usize) -> [usize; 2] {
        let Some(one) = self.exchanges.get(which) else { return [0; 2] };
        let interim = if one.interim { INTERIM.len() } else { 0 };
        [request(which, one, self.upgrading).len(), self.response(which).len() - interim]
    }

    /// What the client gets of that response.
    pub(crate) fn wanted(&self, which: usize) -> Vec<u8> {
        let one = &self.exchanges[which];
        if !self.changing {
            return self.response(which);
        }
        let added = "X-Frame-Options: DENY\r\nVary: Origin\r\nSet-Cookie: at=any; Path=/\r\n";
        self.answer(which, one, "Connection: keep-alive\r\n", added)
    }

    /// The response with fields before those that frame it, and behind them.
    fn answer(&self, which: usize, one: &Exchange, before: &str, after: &str) -> Vec<u8> {
        let interim = if one.interim { INTERIM } else { "" };
        let padding = "q".repeat(one.answer_padding);
        let header = format!("{interim}HTTP/1.1 200 OK\r\nPadding: {padding}\r\n{before}");
        let body = Exchange { body: one.answer, ..one.clone() };
        let framed = framed(which + 100, &body);
        let cut = framed.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 2;
        [header.as_bytes(), &framed[..cut], after.as_bytes(), &framed[cut..]].concat()
    }
}

fn request(which: usize, one: &Exchange, upgrading: bool) -> Vec<u8> {
    let upgrade = if upgrading { "Upgrade: other\r\nConnection: upgrade\r\n" } else { "" };
    let padding = "p".repeat(one.padding);
    let mut request = format!(
        "POST /{which} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6\r\n{upgrade}Padding: {padding}\r\n"
    )
    .into_bytes();
    request.extend(framed(which, one));
    request
}

/// From the field that frames the body to the body's end.
fn framed(which: usize, one: &Exchange) -> Vec<u8> {
    let body = bytes(which, one.body);
    if !one.chunked {
        return [format!("Content-Length: {}\r\n\r\n", one.body).into_bytes(), body].concat();
    }
    let mut framed = b"Transfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(1000 + which) {
        framed.extend(format!("{:X}\r\n", chunk.len()).bytes());
        framed.extend(chunk);
        framed.extend(b"\r\n");
    }
    framed.extend(b"0\r\n\r\n");
    framed
}

/// The server's reading: how many requests are whole in what it received.
pub(crate) fn check_requests(talk: &Talk, mut stream: &[u8]) -> Result<usize, String> {
    if !talk.hello.is_empty() {
        return check_bytes(talk, stream);
    }
    for (which, one) in talk.exchanges.iter().enumerate() {
        let Some(end) = stream.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(which);
        };
        let header = String::from_utf8(stream[..end + 4].to_vec()).map_err(|_| "no text")?;
        let expected = framed(which, one);
        let cut = expected.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let framing = String::from_utf8(expected[..cut - 4].to_vec()).unwrap();
        let padding = format!("Padding: {}\r\n", "p".repeat(one.padding));
        let right = header.starts_with(&format!("POST /{which} HTTP/1.1\r\nHost: x\r\n"))
            && header.contains(&framing)
            && header.contains(&padding)
            && header.contains("X-Forwarded-For: 10.0.0.1\r\n")
            && !header.contains("6.6.6.6");
        if !right {
            return Err(format!("request {which} has the header {header:?}"));
        }
        let body = &expected[cut..];
        let there = &stream[end + 4..];
        let shared = there.len().min(body.len());
        if there[..shared] != body[..shared] {
            return Err(format!("the body of request {which} was altered"));
        }
        if there.len() < body.len() {
            return Ok(which);
        }
        stream = &there[body.len()..];
    }
    if stream.is_empty() {
        Ok(talk.exchanges.len())
    } else {
        Err(format!("{} bytes are behind the last request", stream.len()))
    }
}

/// How many parts of the client's are whole in what the server received.
fn check_bytes(talk: &Talk, stream: &[u8]) -> Result<usize, String> {
    let parts = talk.requests();
    if !parts.concat().starts_with(stream) {
        return Err("what is behind the hello, or the hello, was altered".to_owned());
    }
    let ends = parts.iter().scan(0, |end, part| {
        *end += part.len();
        Some(*end)
    });
    Ok(ends.filter(|end| *end <= stream.len()).count())
}
