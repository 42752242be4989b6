//! A UDP echo server and its clients inside namespaces: this test program,
//! started there again.
use std::net::UdpSocket;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "HNLB_TEST_ROLE";
/// How long one is watched for that should not come.
const SUPERFLUOUS: Duration = Duration::from_millis(200);

fn role(namespace: &str, role: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command.args(["--exact", "udp::plays_its_role", "--nocapture"]).env(ROLE, role);
    command
}

/// Starts a server at `addr`.
pub(crate) fn serve(namespace: &str, addr: &str) -> Child {
    role(namespace, &format!("serve {addr}")).stdout(Stdio::null()).spawn().unwrap()
}

/// Sends one datagram to `addr` from each of `ports`; how many come back. Waits
/// until `wanted` have, but no longer than `patience`.
pub(crate) fn ask(
    namespace: &str,
    addr: &str,
    ports: Range<u16>,
    wanted: u16,
    patience: Duration,
) -> u16 {
    let (first, end, patience) = (ports.start, ports.end, patience.as_millis());
    let output = role(namespace, &format!("ask {addr} {first} {end} {wanted} {patience}")).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let answered = text.lines().find_map(|line| line.split("answered=").nth(1));
    answered.and_then(|n| n.trim().parse().ok()).unwrap_or_else(|| panic!("{output:?}"))
}

/// Not a test unless it is told to play a role.
#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    match words[..] {
        ["serve", addr] => echo(&UdpSocket::bind(addr).unwrap()),
        ["ask", addr, first, end, wanted, patience] => {
            let patience = Duration::from_millis(patience.parse().unwrap());
            let ports = first.parse().unwrap()..end.parse().unwrap();
            println!("\nanswered={}", answers(addr, ports, wanted.parse().unwrap(), patience));
        }
        _ => panic!("no such role: {role}"),
    }
}

/// Until it is killed.
fn echo(socket: &UdpSocket) {
    let mut buffer = [0; 2048];
    loop {
        let (len, from) = socket.recv_from(&mut buffer).unwrap();
        socket.send_to(&buffer[..len], from).unwrap();
    }
}

fn answers(addr: &str, ports: Range<u16>, wanted: usize, patience: Duration) -> usize {
    let open = |port| {
        let socket = UdpSocket::bind(("0.0.0.0", port)).unwrap();
        socket.connect(addr).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.send(b"hello").unwrap();
        socket
    };
    let sockets = ports.len();
    let mut waiting: Vec<UdpSocket> = ports.map(open).collect();
    let since = Instant::now();
    let mut collect = || {
        let mut buffer = [0; 16];
        waiting.retain(|socket| socket.recv(&mut buffer).is_err());
        sockets - waiting.len()
    };
    while collect() < wanted && since.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(SUPERFLUOUS);
    collect()
}
