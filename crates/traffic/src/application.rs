//! What connections say: conversations of the applications in the thesis' traffic sets
//! (section 5.2), as deep packet inspection knows them.
use crate::Rng;

/// An application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Application {
    /// HTTP with responses of a few hundred bytes.
    WebSmall,
    /// HTTP with responses of about 100 kB.
    WebLarge,
    /// SMTP with a message of some kB.
    Mail,
    /// RTSP that sets up a stream.
    Rtsp,
    /// RTP over UDP, 20 ms of audio a packet.
    Rtp,
    /// Citrix's ICA: short packets both ways.
    Citrix,
}

/// One packet's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whether it goes from server to client.
    pub back: bool,
    /// At most [`Application::MOST_BYTES`].
    pub payload: Vec<u8>,
}

impl Application {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::WebSmall, Self::WebLarge, Self::Mail, Self::Rtsp, Self::Rtp, Self::Citrix];

    /// Payload of a full packet in bytes.
    pub const MOST_BYTES: usize = 1400;

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WebSmall => "web-small",
            Self::WebLarge => "web-large",
            Self::Mail => "mail",
            Self::Rtsp => "rtsp",
            Self::Rtp => "rtp",
            Self::Citrix => "citrix",
        }
    }

    /// Whether it runs over UDP rather than TCP.
    #[must_use]
    pub const fn is_udp(self) -> bool {
        matches!(self, Self::Rtp)
    }

    /// The server's port.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::WebSmall | Self::WebLarge => 80,
            Self::Mail => 25,
            Self::Rtsp => 554,
            Self::Rtp => 16_384,
            Self::Citrix => 1494,
        }
    }

    /// The application of a connection by chance. The thesis names the applications and
    /// no shares; most connections are web.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        match rng.below(100) {
            0..45 => Self::WebSmall,
            45..65 => Self::WebLarge,
            65..80 => Self::Mail,
            80..85 => Self::Rtsp,
            85..95 => Self::Rtp,
            _ => Self::Citrix,
        }
    }

    /// How many of 100 packets go from server to client, the transport's own among them: a
    /// receiver acknowledges every second full segment.
    #[must_use]
    pub const fn back_percent(self) -> u32 {
        match self {
            Self::WebLarge => 65,
            Self::Mail => 40,
            Self::WebSmall | Self::Rtsp | Self::Rtp | Self::Citrix => 50,
        }
    }

    /// A conversation, without the transport's own packets.
    #[must_use]
    pub fn conversation(self, rng: &mut Rng) -> Vec<Message> {
        match self {
            Self::WebSmall => web(200 + rng.below(800) as usize, rng),
            Self::WebLarge => web(50_000 + rng.below(100_000) as usize, rng),
            Self::Mail => mail(rng),
            Self::Rtsp => rtsp(),
            Self::Rtp => rtp(rng),
            Self::Citrix => citrix(rng),
        }
    }
}

fn ask(text: &str) -> Message {
    Message { back: false, payload: text.as_bytes().to_vec() }
}

fn answer(text: &str) -> Message {
    Message { back: true, payload: text.as_bytes().to_vec() }
}

/// `bytes` of any contents in full packets.
fn data(back: bool, bytes: usize, rng: &mut Rng) -> impl Iterator<Item = Message> {
    let most = Application::MOST_BYTES;
    let seed = rng.split();
    (0..bytes.div_ceil(most)).map(move |packet| {
        let mut rng = seed.clone();
        let length = most.min(bytes - packet * most);
        let mut payload: Vec<u8> = std::iter::repeat_with(|| rng.next_u64().to_le_bytes())
            .take(length / 8 + 1)
            .flatten()
            .collect();
        payload.truncate(length);
        Message { back, payload }
    })
}

fn web(bytes: usize, rng: &mut Rng) -> Vec<Message> {
    let path = rng.below(100_000);
    let mut messages = vec![
        ask(&format!(
            "GET /page/{path}.html HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 \
             (X11; Linux x86_64)\r\nAccept: text/html\r\nAccept-Language: en\r\n\r\n"
        )),
        answer(&format!(
            "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html\r\nContent-Length: \
             {bytes}\r\n\r\n"
        )),
    ];
    messages.extend(data(true, bytes, rng));
    messages
}

fn mail(rng: &mut Rng) -> Vec<Message> {
    let bytes = 2000 + rng.below(10_000) as usize;
    let mut messages = vec![
        answer("220 mail.example.com ESMTP Postfix\r\n"),
        ask("EHLO client.example.net\r\n"),
        answer("250-mail.example.com\r\n250-PIPELINING\r\n250-SIZE 10240000\r\n250 8BITMIME\r\n"),
        ask("MAIL FROM:<one@example.net> SIZE=4000\r\n"),
        answer("250 2.1.0 Ok\r\n"),
        ask("RCPT TO:<other@example.com>\r\n"),
        answer("250 2.1.5 Ok\r\n"),
        ask("DATA\r\n"),
        answer("354 End data with <CR><LF>.<CR><LF>\r\n"),
    ];
    messages.extend(data(false, bytes, rng));
    messages.extend([
        ask("\r\n.\r\n"),
        answer("250 2.0.0 Ok: queued\r\n"),
        ask("QUIT\r\n"),
        answer("221 2.0.0 Bye\r\n"),
    ]);
    messages
}

fn rtsp() -> Vec<Message> {
    let methods = ["OPTIONS", "DESCRIBE", "SETUP", "PLAY", "TEARDOWN"];
    let mut messages = Vec::new();
    for (number, method) in (1..).zip(methods) {
        messages.push(ask(&format!(
            "{method} rtsp://media.example.com/film RTSP/1.0\r\nCSeq: {number}\r\n\
             User-Agent: player\r\nTransport: RTP/AVP;unicast;client_port=16384-16385\r\n\r\n"
        )));
        messages.push(answer(&format!(
            "RTSP/1.0 200 OK\r\nCSeq: {number}\r\nSession: 12345678\r\n\
             Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n\r\n"
        )));
    }
    messages
}

fn rtp(rng: &mut Rng) -> Vec<Message> {
    let source = rng.next_u64() as u32;
    let packet = |number: u16| {
        // RFC 3550: version 2, payload type 0 (PCMU), sequence, time stamp, source.
        let mut payload = vec![0x80, 0];
        payload.extend(number.to_be_bytes());
        payload.extend((u32::from(number) * 160).to_be_bytes());
        payload.extend(source.to_be_bytes());
        payload.extend([0xff; 160]);
        Message { back: number % 2 == 1, payload }
    };
    (0..100).map(packet).collect()
}

fn citrix(rng: &mut Rng) -> Vec<Message> {
    // The ICA handshake: 7f 7f "ICA" 00 from the server, and the client's echo.
    let hello = b"\x7f\x7fICA\0";
    let mut messages = vec![
        Message { back: true, payload: hello.to_vec() },
        Message { back: false, payload: hello.to_vec() },
    ];
    for turn in 0..40 {
        let bytes = 20 + rng.below(200) as usize;
        messages.extend(data(turn % 3 != 0, bytes, rng));
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_fit_packets_and_go_both_ways() {
        let mut rng = Rng::new(1);
        for application in Application::ALL {
            let messages = application.conversation(&mut rng);
            assert!(messages.iter().any(|message| message.back), "{application:?}");
            assert!(messages.iter().any(|message| !message.back), "{application:?}");
            for message in &messages {
                let bytes = message.payload.len();
                assert!((1..=Application::MOST_BYTES).contains(&bytes), "{application:?} {bytes}");
            }
        }
    }

    #[test]
    fn every_application_is_drawn() {
        let mut rng = Rng::new(2);
        let drawn: std::collections::HashSet<_> =
            (0..1000).map(|_| Application::draw(&mut rng)).collect();
        assert_eq!(drawn.len(), Application::ALL.len());
    }
}
