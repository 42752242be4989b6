//! Rules as the kernel's tc flower shows them: what net_tap's rte_flow made
//! of ours, seen from the other side.

use std::collections::BTreeMap;

/// One flower filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The kernel's name for it.
    pub handle: String,
    /// What it matches, for instance `src_port` to `8080`.
    pub keys: BTreeMap<String, String>,
    /// The queue it directs to (`skbedit queue_mapping`).
    pub queue: Option<u16>,
    /// Packets it has matched.
    pub packets: u64,
}

impl Filter {
    /// Whether it is for one connection: addresses and ports of both sides.
    pub(crate) fn is_connection(&self) -> bool {
        ["src_ip", "dst_ip", "src_port", "dst_port"].iter().all(|key| self.keys.contains_key(*key))
    }

    /// What a key must equal.
    pub(crate) fn key(&self, name: &str) -> Option<&str> {
        self.keys.get(name).map(String::as_str)
    }
}

/// Reads what `tc -s filter show dev DEVICE parent 1:` prints.
pub(crate) fn parse(text: &str) -> Vec<Filter> {
    let mut filters: Vec<Filter> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if line.starts_with("filter ") {
            // A line without a handle only heads a priority.
            if let Some(handle) = after(&words, "handle") {
                filters.push(Filter { handle: handle.into(), ..Filter::default() });
            }
            continue;
        }
        let Some(filter) = filters.last_mut() else { continue };
        match words.as_slice() {
            ["action", ..] => {
                filter.queue = after(&words, "queue_mapping").and_then(|queue| queue.parse().ok());
            }
            ["Sent", _, "bytes", packets, "pkt", ..] => {
                filter.packets = packets.parse().unwrap_or(0);
            }
            // Keys are indented by two spaces, an action's lines by a tab.
            [key, value] if line.starts_with("  ") => {
                filter.keys.insert((*key).to_owned(), (*value).to_owned());
            }
            _ => {}
        }
    }
    filters
}

fn after<'a>(words: &[&'a str], word: &str) -> Option<&'a str> {
    words.iter().skip_while(|w| **w != word).nth(1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As printed for rules that testpmd created on net_tap.
    const PRINTED: &str = "\
filter protocol all pref 17 flower chain 0 
filter protocol all pref 17 flower chain 0 handle 0x1572c16a 
  eth_type ipv4
  ip_proto udp
  dst_ip 10.9.0.2
  src_ip 10.9.0.1
  dst_port 53
  src_port 1003
  not_in_hw
\taction order 1: skbedit queue_mapping 2 pipe
\t index 1 ref 1 bind 1 installed 10 sec used 2 sec
\tAction statistics:
\tSent 88 bytes 1 pkt (dropped 0, overlimits 0 requeues 0) 
\tbacklog 0b 0p requeues 0

filter protocol all pref 22 flower chain 0 
filter protocol all pref 22 flower chain 0 handle 0xd8a55a95 
  not_in_hw
\taction order 1: skbedit queue_mapping 0 pipe
\t index 5 ref 1 bind 1 installed 4 sec used 4 sec
\tAction statistics:
\tSent 598 bytes 7 pkt (dropped 0, overlimits 0 requeues 0) 
";

    #[test]
    fn a_filter_has_keys_queue_and_packets() {
        let filters = parse(PRINTED);
        assert_eq!(filters.len(), 2);
        assert_eq!(filters[0].key("src_port"), Some("1003"));
        assert_eq!((filters[0].queue, filters[0].packets), (Some(2), 1));
        assert!(filters[0].is_connection() && !filters[1].is_connection());
        assert_eq!((filters[1].queue, filters[1].packets), (Some(0), 7));
        assert_eq!(parse(""), []);
    }
}
