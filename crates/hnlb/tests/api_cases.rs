//! The control API of a running `hnlb` against requests that nobody planned:
//! HNLB_API_CASES of them, by HNLB_SEED. None gets an answer of the kind 5xx, none that is
//! refused changes anything, each refusal says what is wrong, and of two clients that
//! change the same neither loses what the other did.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value, json};
use testkit::{ConfigText, Program};
use wire::Transport;

fn config() -> ConfigText {
    ConfigText::one_ring()
        .service("web", "10.71.0.100", Some(80), Transport::Tcp, "")
        .backend("10.71.0.11", None, "weight = 3\nbackup = true\n")
        .backend("10.71.0.12", None, "")
        .service("dns", "10.71.0.100", Some(53), Transport::Udp, "")
        .backend("10.71.0.11", None, "")
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

fn start() -> Program {
    let program = Program::start(env!("CARGO_BIN_EXE_hnlb"), &[], config().text());
    program.wait_for_start();
    program
}

/// An answer: its code, the version of the configuration, its body.
#[derive(Debug)]
struct Answer {
    code: u16,
    version: Option<String>,
    body: String,
}

/// What comes of a request, its headers as they are on the wire.
fn ask(socket: &Path, (method, path): (&str, &str), headers: &str, body: &str) -> Answer {
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: hnlb\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    // A server that has refused the request may read no more of it.
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) =
        text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{method} {path}: {text}"));
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let version = head.lines().find_map(|line| line.strip_prefix("etag: ").map(str::to_owned));
    Answer { code, version, body: body.to_owned() }
}

fn get(socket: &Path, path: &str) -> Answer {
    let answer = ask(socket, ("GET", path), "", "");
    assert_eq!(answer.code, 200, "{path}: {answer:?}");
    answer
}

const JSON: &str = "content-type: application/json\r\n";

/// What can be in force of the services: their configuration and their drains.
fn in_force(socket: &Path) -> (Option<String>, Value, Vec<bool>) {
    let config = get(socket, "/v1/config");
    let services: Value = serde_json::from_str(&get(socket, "/v1/services").body).unwrap();
    let backends = services.as_array().unwrap().iter().flat_map(|own| own["backends"].as_array());
    let drained = backends.flatten().map(|own| own["drained"].as_bool().unwrap()).collect();
    (config.version, serde_json::from_str(&config.body).unwrap(), drained)
}

/// Requests, made of the API's own document.
struct Source {
    random: StdRng,
    operations: Vec<(String, String, Value)>,
    /// Values that are right somewhere.
    pool: Vec<Value>,
}

impl Source {
    fn new(seed: u64, document: &Value, config: &Value) -> Self {
        let mut operations = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            // A stream of events has no end.
            for (method, operation) in
                methods.as_object().unwrap().iter().filter(|_| path != "/v1/events")
            {
                operations.push((method.to_uppercase(), path.clone(), operation.clone()));
            }
        }
        let mut pool = vec![
            json!({}),
            json!([]),
            json!(null),
            json!(true),
            json!(0),
            json!(65536),
            json!(-1),
            json!(""),
        ];
        collect(config, &mut pool);
        Self { random: StdRng::seed_from_u64(seed), operations, pool }
    }

    fn word(&mut self) -> String {
        let known = [
            "web",
            "dns",
            "none",
            "10.71.0.11",
            "10.71.0.12",
            "10.71.0.13",
            "fd00::1",
            "10.71.0.11:80",
            "80",
            "1",
            "0",
            "65535",
            "maglev",
            "nat",
            "tcp",
            "udp",
            "10.71.0.100",
            "[fd00::1]:80",
        ];
        match self.random.random_range(0..4) {
            0 => {
                let length = self.random.random_range(0..12);
                (0..length).map(|_| char::from(self.random.random_range(32..127_u8))).collect()
            }
            _ => (*known.choose(&mut self.random).unwrap()).to_owned(),
        }
    }

    /// A value that is `like`, changed in a place or two.
    fn mutated(&mut self, like: &Value) -> Value {
        let mut value = like.clone();
        for _ in 0..self.random.random_range(0..3) {
            self.change(&mut value);
        }
        value
    }

    fn change(&mut self, value: &mut Value) {
        let descends = self.random.random_bool(0.7);
        match value {
            Value::Object(map) if descends && !map.is_empty() => {
                let keys: Vec<String> = map.keys().cloned().collect();
                let key = keys.choose(&mut self.random).unwrap();
                match self.random.random_range(0..5) {
                    0 => drop(map.remove(key)),
                    1 => {
                        drop(map.insert(
                            self.word(),
                            self.pool.choose(&mut self.random).unwrap().clone(),
                        ))
                    }
                    _ => self.change(&mut map[key]),
                }
            }
            Value::Array(list) if descends && !list.is_empty() => {
                let at = self.random.random_range(0..list.len());
                match self.random.random_range(0..4) {
                    0 => drop(list.remove(at)),
                    1 => list.push(list[at].clone()),
                    _ => self.change(&mut list[at]),
                }
            }
            Value::String(_) if descends => *value = Value::String(self.word()),
            other => *other = self.pool.choose(&mut self.random).unwrap().clone(),
        }
    }

    fn next(&mut self, versions: &Option<String>) -> (String, String, String, String) {
        let (method, path, operation) = self.operations.choose(&mut self.random).unwrap().clone();
        let mut filled = String::new();
        for part in path.split('/').skip(1) {
            let part = if part.starts_with('{') { encoded(&self.word()) } else { part.to_owned() };
            filled += &format!("/{part}");
        }
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let mut query = Vec::new();
        for own in parameters.iter().filter(|own| own["in"] == "query") {
            if self.random.random_bool(0.5) {
                query.push(format!("{}={}", own["name"].as_str().unwrap(), encoded(&self.word())));
            }
        }
        if !query.is_empty() {
            filled += &format!("?{}", query.join("&"));
        }
        let mut headers = String::new();
        if self.random.random_bool(0.2) {
            let tag = match self.random.random_range(0..3) {
                0 => versions.clone().unwrap_or_default(),
                1 => "\"1\"".to_owned(),
                _ => self.word(),
            };
            headers += &format!("if-match: {tag}\r\n");
        }
        if !operation["requestBody"].is_object() {
            return (method, filled, headers, String::new());
        }
        if self.random.random_bool(0.95) {
            headers += JSON;
        }
        let like = self.right_body(&path, &filled);
        let body = match self.random.random_range(0..10) {
            0 => self.word(),
            _ => self.mutated(&like).to_string(),
        };
        (method, filled, headers, body)
    }

    fn right_body(&mut self, path: &str, filled: &str) -> Value {
        match path.rsplit('/').next().unwrap() {
            "{service}" => {
                let name = filled.rsplit('/').next().unwrap();
                let n = self.random.random_range(101..110);
                json!({ "name": name, "vip": format!("10.71.0.{n}"), "port": 80, "protocol": "tcp",
                    "scheduler": "maglev", "backend": [{ "address": "10.71.0.11", "weight": 2 }] })
            }
            "weight" => json!({ "weight": self.random.random_range(0..20) }),
            "{backend}" => json!({ "weight": 2, "backup": false }),
            "reload" => json!({ "dry_run": true }),
            _ => json!({}),
        }
    }
}

/// Every value in `value`.
fn collect(value: &Value, pool: &mut Vec<Value>) {
    pool.push(value.clone());
    match value {
        Value::Array(list) => list.iter().for_each(|own| collect(own, pool)),
        Value::Object(map) => Map::values(map).for_each(|own| collect(own, pool)),
        _ => {}
    }
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    let text: String = text.bytes().map(byte).collect();
    if text.is_empty() { "%20".to_owned() } else { text }
}

#[test]
fn no_request_fails_the_server_and_no_refused_one_changes_anything() {
    let program = start();
    let socket = program.socket();
    let document: Value = serde_json::from_str(&get(&socket, "/v1/openapi.json").body).unwrap();
    let mut before = in_force(&socket);
    let mut source = Source::new(number("HNLB_SEED", 1), &document, &before.1);
    let (mut done, mut refused) = (0, 0);
    for case in 0..number("HNLB_API_CASES", 300) {
        let (method, path, headers, body) = source.next(&before.0);
        let answer = ask(&socket, (&method, &path), &headers, &body);
        let told = format!("case {case}: {method} {path} {headers:?} {body}: {answer:?}");
        assert!(answer.code < 500, "{told}");
        let changes = method != "GET";
        if answer.code < 300 {
            done += u32::from(changes);
            before = if changes { in_force(&socket) } else { before };
            continue;
        }
        refused += 1;
        let refusal: Value =
            serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{told}"));
        assert!(refusal["error"].as_str().is_some_and(|error| error.len() > 10), "{told}");
        if changes {
            assert_eq!(in_force(&socket), before, "{told}");
        }
    }
    println!("{done} changes were made, {refused} requests refused");
    assert!(done > 0 && refused > 0);
    assert!(!program.log().contains("panicked"), "{}", program.log());
}

#[test]
fn of_two_clients_that_change_at_once_neither_loses_an_update() {
    const EACH: u16 = 40;
    let program = start();
    let socket = program.socket();
    let weight = |config: &str| {
        let value: Value = serde_json::from_str(config).unwrap();
        value["config"]["service"][0]["backend"][0]["weight"].as_u64().unwrap()
    };
    let add = || {
        let mut outdated = 0;
        for _ in 0..EACH {
            loop {
                let read = get(&socket, "/v1/config");
                let body = json!({ "weight": weight(&read.body) + 1 }).to_string();
                let headers = format!("{JSON}if-match: {}\r\n", read.version.unwrap());
                let path = "/v1/services/web/backends/10.71.0.11/weight";
                let answer = ask(&socket, ("PUT", path), &headers, &body);
                match answer.code {
                    200 => break,
                    412 => outdated += 1,
                    _ => panic!("{answer:?}"),
                }
            }
        }
        outdated
    };
    let outdated: u32 = thread::scope(|scope| {
        let clients = [scope.spawn(add), scope.spawn(add)];
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    println!("{outdated} changes were outdated and made again");
    assert_eq!(weight(&get(&socket, "/v1/config").body), 3 + 2 * u64::from(EACH));
}

#[test]
fn a_backend_keeps_what_a_change_leaves_out() {
    let program = start();
    let socket = program.socket();
    let path = "/v1/services/web/backends/10.71.0.11";
    let answer = ask(&socket, ("PUT", path), JSON, r#"{"weight": 7}"#);
    assert_eq!(answer.code, 200, "{answer:?}");
    let config: Value = serde_json::from_str(&get(&socket, "/v1/config").body).unwrap();
    let backend = &config["config"]["service"][0]["backend"][0];
    assert_eq!(*backend, json!({ "address": "10.71.0.11", "weight": 7, "backup": true }));
}
