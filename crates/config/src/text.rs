//! Values that are written as text: durations, port ranges, addresses.
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use service::{Key128, ServerId};

use crate::device::{check_device, check_name};

/// The text of a value is not what it should be; says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadText(pub(crate) String);

/// The text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a duration; write a whole number and a unit (ms, s, m or h), as 500ms, 30s or 1h"
)]
pub struct BadDuration(String);

const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// The duration written as a whole number and a unit: `ms`, `s`, `m` or `h`.
///
/// # Errors
/// If it is written otherwise, or is longer than 2^64 ms.
pub fn parse_duration(text: &str) -> Result<Duration, BadDuration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or_default();
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let millis = number.parse().ok().zip(factor).and_then(|(n, f)| u64::checked_mul(n, f));
    millis.map(Duration::from_millis).ok_or_else(|| BadDuration(text.to_owned()))
}

/// The text of `duration` in whole milliseconds, in the largest unit that
/// leaves no remainder; [`parse_duration`] reads it back.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let unit = UNITS.iter().find(|(_, factor)| millis % factor == 0);
    unit.map_or_else(String::new, |(name, factor)| format!("{}{name}", millis / factor))
}

/// The range of ports written as `first-last`, or as one port.
pub(crate) fn parse_port_range(text: &str) -> Result<RangeInclusive<u16>, BadText> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |part: &str| part.trim().parse::<u16>().ok().filter(|port| *port > 0);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(BadText(format!(
            "'{text}' is not a range of ports; write the first and the last, as 1024-65535"
        ))),
    }
}

/// The status codes of HTTP written as `200` or `200-399`.
pub(crate) fn parse_status_range(text: &str) -> Result<RangeInclusive<u16>, BadText> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let code = |part: &str| {
        let digits = part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u16>().ok().filter(|code| digits && (100..=599).contains(code))
    };
    match (code(first), code(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(BadText(format!(
            "'{text}' is not a range of HTTP status codes; write the first and the last, as 200-399"
        ))),
    }
}

/// The permissions of a file, written in octal as `0660`. The owner may read and
/// write in any case.
pub(crate) fn parse_mode(text: &str) -> Result<u32, BadText> {
    let digits = text.strip_prefix('0').unwrap_or(text);
    let mode = u32::from_str_radix(digits, 8).ok();
    mode.filter(|mode| digits.len() == 3 && mode & 0o600 == 0o600).ok_or_else(|| {
        BadText(format!(
            "'{text}' is not a mode; write three octal digits, the first of them 6 or 7, as 0600 or 0660"
        ))
    })
}

/// Checks the name of an interface of the kernel's, which has up to 15 characters.
fn check_kernel_interface(text: &str) -> Result<(), BadText> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts && text.len() <= 15 && text.chars().all(is_plain) {
        return Ok(());
    }
    Err(BadText(format!(
        "'{text}' is not a name for an interface of the kernel's; write up to 15 letters, digits, '-', '_' and '.', as hnlb0"
    )))
}

/// Checks text of the schema's `format`; formats that aren't ours are fine.
pub(crate) fn check_format(format: &str, text: &str) -> Result<(), BadText> {
    let bad = |what: &str| BadText(format!("'{text}' is not {what}"));
    match format {
        "name" => check_name(text),
        "device" => check_device(text),
        "time-span" => parse_duration(text).map(drop).map_err(|e| BadText(e.to_string())),
        "port-range" => parse_port_range(text).map(drop),
        "status-range" => parse_status_range(text).map(drop),
        "mode" => parse_mode(text).map(drop),
        "kernel-interface" => check_kernel_interface(text),
        "mac" => text.parse::<wire::Mac>().map(drop).map_err(|e| BadText(e.to_string())),
        "ip" => text.parse::<IpAddr>().map(drop).map_err(|_| {
            bad("an IP address; write it without prefix length and port, as 10.71.0.100 or fd71::100")
        }),
        "endpoint" => text.parse::<SocketAddr>().map(drop).map_err(|_| {
            bad("an address and port; write it as 192.0.2.1:9443 or [::]:9443")
        }),
        "prefix" => check_prefix(text),
        "server-id" => text.parse::<ServerId>().map(drop).map_err(|e| BadText(e.to_string())),
        "key" => text.parse::<Key128>().map(drop).map_err(|e| BadText(e.to_string())),
        "interface-address" => text.parse::<IpNet>().map(drop).map_err(|_| {
            bad("an address with prefix length; write it as 10.71.0.1/24 or fd71::1/64")
        }),
        _ => Ok(()),
    }
}

fn check_prefix(text: &str) -> Result<(), BadText> {
    match text.parse::<IpNet>() {
        Ok(net) if net == net.trunc() => Ok(()),
        Ok(net) => Err(BadText(format!(
            "'{text}' has bits set behind the prefix length; write {}",
            net.trunc()
        ))),
        Err(_) => {
            Err(BadText(format!("'{text}' is not a prefix; write it as 10.72.0.0/24 or fd72::/64")))
        }
    }
}

/// An example of text of `format`.
pub(crate) fn example(format: &str) -> Option<&'static str> {
    Some(match format {
        "name" => "web",
        "device" => "0000:3b:00.0",
        "time-span" => "30s",
        "port-range" => "1024-65535",
        "status-range" => "200-399",
        "mode" => "0660",
        "kernel-interface" => "hnlb0",
        "mac" => "02:00:0a:01:00:05",
        "ip" => "10.71.0.100",
        "endpoint" => "192.0.2.1:9443",
        "prefix" => "10.72.0.0/24",
        "interface-address" => "10.71.0.1/24",
        "server-id" => "ed793a",
        "key" => "8f95f09245765f80256934e50c66207f",
        _ => return None,
    })
}

/// The schema of an address in a list.
pub(crate) struct Address;

impl JsonSchema for Address {
    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "ip" })
    }
}

/// The schema of an interface's address in a list.
pub(crate) struct InterfaceAddress;

impl JsonSchema for InterfaceAddress {
    fn schema_name() -> Cow<'static, str> {
        "InterfaceAddress".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "interface-address" })
    }
}

/// Server ids as the configuration writes them, in hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ServerIds(
    #[serde(with = "list")]
    #[schemars(with = "Vec<ServerIdText>")]
    pub Vec<ServerId>,
);

/// The schema of a server id in a list.
pub(crate) struct ServerIdText;

impl JsonSchema for ServerIdText {
    fn schema_name() -> Cow<'static, str> {
        "ServerId".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "server-id" })
    }
}

/// The schema of a service's port.
pub(crate) struct ServicePort;

impl JsonSchema for ServicePort {
    fn schema_name() -> Cow<'static, str> {
        "ServicePort".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": 65535 },
            { "type": "string", "const": "any" },
        ] })
    }
}

/// Text by `Display` and `FromStr`.
pub(crate) mod plain {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(v: &impl Display, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(v)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// The same, of a key that may be left out.
pub(crate) mod optional {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<impl Display>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        super::plain::deserialize(from).map(Some)
    }
}

/// A list of texts by `Display` and `FromStr`.
pub(crate) mod list {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(all: &[impl Display], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(ToString::to_string))
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let all = Vec::<String>::deserialize(from)?;
        all.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

/// Durations, as `"30s"`.
pub(crate) mod duration {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        super::parse_duration(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// Permissions, as `"0660"`.
pub(crate) mod mode {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &u32, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{value:04o}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        super::parse_mode(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The same, of a key that may be left out.
pub(crate) mod optional_duration {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::duration::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        super::duration::deserialize(from).map(Some)
    }
}

/// Ranges of ports, as `"1024-65535"`.
pub(crate) mod port_range {
    use std::ops::RangeInclusive;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &RangeInclusive<u16>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}-{}", value.start(), value.end()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<RangeInclusive<u16>, D::Error> {
        super::parse_port_range(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// Status codes of HTTP, as `"200-399"`, of a key that may be left out.
pub(crate) mod status_range {
    use std::ops::RangeInclusive;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<RangeInclusive<u16>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(range) => to.collect_str(&format_args!("{}-{}", range.start(), range.end())),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<RangeInclusive<u16>>, D::Error> {
        super::parse_status_range(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
    }
}

/// A service's port: a number or `"any"`.
pub(crate) mod service_port {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u16),
        Word(String),
    }

    pub(crate) fn serialize<S: Serializer>(value: &Option<u16>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(port) => to.serialize_u16(*port),
            None => to.serialize_str("any"),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(port) if port > 0 => Ok(Some(port)),
            Written::Word(word) if word == "any" => Ok(None),
            _ => Err(D::Error::custom("write a port from 1 to 65535, or \"any\"")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
        }
        let wrong = [
            "",
            "s",
            "5",
            "-5s",
            "+5s",
            "1.5s",
            "5 s",
            "5S",
            "5min",
            "18446744073709551615h",
            "५s",
        ];
        for text in wrong {
            assert_eq!(parse_duration(text), Err(BadDuration(text.to_owned())));
        }
    }

    #[test]
    fn ranges_of_ports_are_read() {
        assert_eq!(parse_port_range("1024-65535"), Ok(1024..=65535));
        assert_eq!(parse_port_range("80"), Ok(80..=80));
        for text in ["", "-", "0-1", "2-1", "1-65536", "1-2-3", "a-b"] {
            assert!(parse_port_range(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_durations_are_read_back(millis: u64) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }
}
