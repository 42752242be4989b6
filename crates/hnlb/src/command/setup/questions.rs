//! Questions about what the flags of `hnlb setup` leave out.
use std::io::{self, BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use machine::Nic;

use crate::cli::SetupArgs;

/// A person who answers questions.
pub(super) struct Person<R, W> {
    answers: R,
    questions: W,
}

impl<R: BufRead, W: Write> Person<R, W> {
    /// Reads `answers`, and writes `questions`.
    pub(super) const fn new(answers: R, questions: W) -> Self {
        Self { answers, questions }
    }

    /// `args` with an answer to each question that the flags leave open.
    pub(super) fn complete(&mut self, args: &SetupArgs, nics: &[Nic]) -> io::Result<SetupArgs> {
        let mut args = args.clone();
        if args.device.is_none() {
            self.show(nics)?;
            args.device = self.one(
                "DPDK device, or the kernel's interface as net_af_packet0,iface=NAME",
                "",
                text,
            )?;
        }
        if args.addresses.is_empty() {
            let question =
                "HNLB's own addresses on that link, as 192.0.2.1/24, with commas between";
            args.addresses = self.several(question, true, network)?;
        }
        if args.gateway.is_empty() {
            let question = "router to all other networks, one for each family; empty: none";
            args.gateway = self.several(question, false, of::<IpAddr>)?;
        }
        if args.vip.is_none() {
            let question = "address and port that clients speak to, as 192.0.2.100:80";
            args.vip = self.one(question, "", of::<SocketAddr>)?;
        }
        if args.backends.is_empty() {
            let question = "servers, as 192.0.2.11 or 192.0.2.11:8080, with commas between";
            args.backends = self.several(question, true, backend)?;
        }
        if args.check.is_none() {
            let question = "health check: tcp, http, https, dns, icmp or grpc; none: no check";
            args.check = self.one(question, "none", check)?.flatten();
        }
        if args.out.is_none() {
            let question = "file to write; empty: standard output";
            let file = self.one(question, "", |line| Ok(line.to_owned()))?;
            args.out = file.filter(|file| !file.is_empty()).map(Into::into);
        }
        Ok(args)
    }

    fn show(&mut self, nics: &[Nic]) -> io::Result<()> {
        for nic in nics {
            let card = nic.card.unwrap_or(nic.id.as_str());
            let interfaces = nic.interfaces.join(",");
            writeln!(self.questions, "  {}  {card}  {interfaces}", nic.address)?;
        }
        Ok(())
    }

    /// An answer, or `usual` where there is none, as `parse` understands it; asked again
    /// until it does.
    fn one<T>(
        &mut self,
        question: &str,
        usual: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> io::Result<Option<T>> {
        loop {
            let line = self.ask(question, usual)?;
            match parse(if line.is_empty() { usual } else { &line }) {
                Ok(value) => return Ok(Some(value)),
                Err(error) => writeln!(self.questions, "  {error}")?,
            }
        }
    }

    fn several<T>(
        &mut self,
        question: &str,
        needed: bool,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> io::Result<Vec<T>> {
        let all = |line: &str| {
            let words = line.split(',').map(str::trim).filter(|word| !word.is_empty());
            let values = words.map(&parse).collect::<Result<Vec<T>, String>>()?;
            match values.is_empty() && needed {
                true => Err("at least one is needed".to_owned()),
                false => Ok(values),
            }
        };
        Ok(self.one(question, "", all)?.unwrap_or_default())
    }

    fn ask(&mut self, question: &str, usual: &str) -> io::Result<String> {
        match usual {
            "" => write!(self.questions, "{question}: ")?,
            usual => write!(self.questions, "{question} [{usual}]: ")?,
        }
        self.questions.flush()?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(line.trim().to_owned())
    }
}

fn text(line: &str) -> Result<String, String> {
    let problem = || Err("a device is needed; hnlb nic list shows the cards".to_owned());
    if line.is_empty() || line.contains('"') { problem() } else { Ok(line.to_owned()) }
}

fn of<T: FromStr<Err: std::fmt::Display>>(line: &str) -> Result<T, String> {
    line.parse().map_err(|error| format!("'{line}': {error}"))
}

fn network(line: &str) -> Result<String, String> {
    let parts = line.split_once('/');
    let good = parts.is_some_and(|(address, length)| {
        let most =
            address.parse().map_or(0, |address: IpAddr| if address.is_ipv4() { 32 } else { 128 });
        length.parse::<u8>().is_ok_and(|length| (1..=most).contains(&length))
    });
    if good {
        Ok(line.to_owned())
    } else {
        Err(format!("'{line}' is no address with the length of its network, as 192.0.2.1/24"))
    }
}

fn backend(line: &str) -> Result<String, String> {
    let good = line.parse::<IpAddr>().is_ok() || line.parse::<SocketAddr>().is_ok();
    if good {
        Ok(line.to_owned())
    } else {
        Err(format!("'{line}' is no address, and no address with a port"))
    }
}

fn check(line: &str) -> Result<Option<flow::Check>, String> {
    if line == "none" { Ok(None) } else { of(line).map(Some) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn asked(words: &str, answers: &str) -> (io::Result<SetupArgs>, String) {
        let Command::Setup(args) = Cli::parse_from(words.split_whitespace()).command else {
            panic!("setup")
        };
        let mut questions = Vec::new();
        let done = Person::new(answers.as_bytes(), &mut questions).complete(&args, &[]);
        (done, String::from_utf8(questions).unwrap())
    }

    #[test]
    fn answers_make_the_configuration_that_flags_would() {
        let answers = "net_af_packet0,iface=eth1\n192.0.2.1/24, 2001:db8::1/64\n192.0.2.254\n\
                       192.0.2.100:80\n192.0.2.11:8080,192.0.2.12\ntcp\n\n";
        let (args, questions) = asked("hnlb setup", answers);
        let args = args.unwrap();
        let flags = "hnlb setup --device net_af_packet0,iface=eth1 --address 192.0.2.1/24 \
                     --address 2001:db8::1/64 --gateway 192.0.2.254 --check tcp \
                     --vip 192.0.2.100:80 --backend 192.0.2.11:8080 --backend 192.0.2.12";
        let (same, none) = asked(flags, "\n");
        assert_eq!(super::super::text(&args).unwrap(), super::super::text(&same.unwrap()).unwrap());
        assert_eq!((questions.matches(": ").count() > 6, none.matches('?').count()), (true, 0));
        assert!(none.starts_with("file to write"), "flags leave one question: {none}");
    }

    #[test]
    fn a_wrong_answer_is_asked_again_and_the_end_ends() {
        let flags = "hnlb setup --device net_null0 --gateway 192.0.2.254 --backend 192.0.2.11 \
                     --check tcp --out x.toml";
        let (args, questions) =
            asked(flags, "192.0.2.1\n192.0.2.1/33\n192.0.2.1/24\nx\n192.0.2.9:80\n");
        let args = args.unwrap();
        assert_eq!(
            (args.addresses, args.vip),
            (vec!["192.0.2.1/24".to_owned()], "192.0.2.9:80".parse().ok())
        );
        assert_eq!(questions.matches("as 192.0.2.1/24, with commas").count(), 3);
        let (ended, _) = asked(flags, "192.0.2.1/24\n");
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
