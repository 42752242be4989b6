//! Counters of one worker. Every packet that comes in is counted once more:
//! where it went or why it was dropped.
use wire::Malformed;

use crate::{CounterSet, counters};

counters! {
    /// The name of a counter of one worker, or of the keeper.
    pub enum Counter {
    In {
        Received "received" "Packets received.",
        FromWorker "from_worker" "Packets of a service of protocol http or tls that another worker has received and handed over.",
    }
    Forwarded {
        ForwardedPackets "forwarded" "Packets of connections sent on, ICMP errors about them included.",
    }
    Replied {
        ArpReplied "arp_replied" "ARP requests for an address of ours, answered.",
        NdpReplied "ndp_replied" "Neighbour solicitations for an address of ours, answered.",
        AddressDefended "address_defended" "Claims of other stations to an address of ours, answered by an announcement.",
        EchoReplied "echo_replied" "Echo requests to an address of ours, answered.",
        TcpReset "tcp_reset" "TCP segments that no service or backend takes, or of a removed backend's connection, answered by a RST.",
        PortUnreachable "port_unreachable" "Packets that no service or backend takes, answered by ICMP port unreachable.",
        TimeExceeded "time_exceeded" "Packets whose TTL ran out here, turned into time exceeded.",
        PacketTooBig "packet_too_big" "Packets longer than the next link's MTU, turned into fragmentation needed or packet too big.",
    }
    Dropped {
        FrameTooLong "frame_too_long" "Frames longer than 65535 bytes.",
        Truncated "truncated" "Frames that end inside a header.",
        BadVersion "bad_version" "The IP version isn't the one that the EtherType says.",
        BadHeaderLength "bad_header_length" "The IPv4 header length is below 20 bytes.",
        BadTotalLength "bad_total_length" "The IP length doesn't fit the frame.",
        TooManyExtensionHeaders "too_many_extension_headers" "More than 8 IPv6 extension headers.",
        MisplacedHopByHop "misplaced_hop_by_hop" "An IPv6 hop-by-hop header that is not the first.",
        TransportTruncated "transport_truncated" "The datagram ends inside the transport header.",
        TinyFragment "tiny_fragment" "A fragment divides the transport header.",
        BadFragment "bad_fragment" "A fragment that can't be part of a datagram.",
        BadOptions "bad_options" "An IPv4 option is shorter than 2 bytes or reaches beyond the header.",
        SourceRoute "source_route" "IPv4 with a source route (LSRR, SSRR).",
        SegmentsLeft "segments_left" "IPv6 with a routing header that has segments left.",
        BadHeaderChecksum "bad_header_checksum" "Wrong IPv4 header checksum in a packet that would open or end a connection or be answered.",
        BadUdpLength "bad_udp_length" "UDP length below 8 bytes or beyond the datagram, in a packet that would open a connection.",
        BadDataOffset "bad_data_offset" "TCP data offset below 20 bytes or beyond the datagram, in a packet that would open or end a connection.",
        BadTcpFlags "bad_tcp_flags" "TCP control bits that no segment has, in a packet that would open or end a connection.",
        WrongVlan "wrong_vlan" "The port has no interface with the frame's VLAN.",
        WrongMac "wrong_mac" "The destination is another station's Ethernet address.",
        GroupMac "group_mac" "IP to a broadcast or multicast Ethernet address that isn't neighbour discovery.",
        UnknownEtherType "unknown_ethertype" "Neither IPv4, IPv6 nor ARP.",
        BadSource "bad_source" "The IP source is one that no host can have, or a link-local one that would be forwarded.",
        BadArp "bad_arp" "ARP that isn't for Ethernet and IPv4 or has impossible addresses.",
        AddressConflict "address_conflict" "Claims of other stations to an address of ours, which was defended less than 10 s before.",
        OwnFrame "own_frame" "ARP and neighbour discovery that an interface of ours has sent.",
        ArpNotForUs "arp_not_for_us" "ARP about addresses that aren't ours and neighbours that aren't known.",
        BadNdp "bad_ndp" "Neighbour discovery messages that RFC 4861 requires to be discarded.",
        NdpNotForUs "ndp_not_for_us" "Neighbour discovery about addresses that aren't ours and neighbours that aren't known.",
        BadIcmp "bad_icmp" "ICMP with a wrong checksum or a part missing.",
        IcmpUnsupported "icmp_unsupported" "ICMP to us that is neither an echo request nor an error, and redirects and source quenches.",
        IcmpUnrelated "icmp_unrelated" "ICMP errors about no connection of ours.",
        ProtocolNotBalanced "protocol_not_balanced" "Neither TCP nor UDP nor ICMP.",
        ClosedPort "closed_port" "To a port of a VIP that no service has, and not answered.",
        NotForUs "not_for_us" "Destination is no service, and source is no backend.",
        BackendUnclaimed "backend_unclaimed" "From a backend, but of no connection, and of no service of mode nat.",
        BackendShared "backend_shared" "The connection table is full, and the backend's answer would be taken for that of another service, which has the same backend.",
        WrongSide "wrong_side" "From a backend's address, but not from the interface that leads there.",
        StaleAnswer "stale_answer" "SYN with ACK, or RST, from a backend, to a client whose connection is with another one by now.",
        TakeoverPending "takeover_pending" "Of a connection that the kernel forwards for an hnlb that was killed, and whose backend has not answered yet.",
        UnknownConnection "unknown_connection" "SYN with ACK to a VIP, or RST to a service of mode fullnat, of no known connection.",
        Hairpin "hairpin" "From a backend to a service of mode nat that has chosen this backend: it would answer itself.",
        RulesRemain "rules_remain" "SYN on the 5-tuple of a connection whose backend is drained and whose rules are still in the NIC.",
        NoBackend "no_backend" "The service has no backend that takes connections.",
        PoolExhausted "pool_exhausted" "The service's pool has no free local endpoint for the connection.",
        TableFull "table_full" "The connection table is full, or a limit of it is reached, and the service needs state.",
        ReplyConflict "reply_conflict" "Another connection has the same 5-tuple on the backend's side, with every backend tried.",
        NoRoute "no_route" "No route to the next hop.",
        NeighbourTableFull "neighbour_table_full" "No room for another next hop: all that could make room are in use.",
        NeighbourUnresolved "neighbour_unresolved" "The next hop's Ethernet address did not become known while the packet waited for it, or others took its place.",
        TtlExpired "ttl_expired" "The TTL ran out here, and no ICMP error may be sent.",
        TooBig "too_big" "Longer than the next link's MTU, and no ICMP error may be sent.",
        NoRoom "no_room" "The buffer has no room for a VLAN tag, a tunnel's header or an ICMP error.",
        NotRewritable "not_rewritable" "The rewrite doesn't fit the packet.",
        FragmentOverflow "fragment_overflow" "Later fragments that came before the first one, and for which there is no room, or which made room for newer ones.",
        FragmentTimeout "fragment_timeout" "A later fragment was held, but the first didn't come.",
        FragmentOrphaned "fragment_orphaned" "The first fragment of the datagram wasn't forwarded.",
        EchoLimited "echo_limited" "Echo requests beyond `echoes_per_second` in `[answers]`.",
        ToKernelLimited "to_kernel_limited" "Packets for the kernel beyond `to_kernel_per_second` in `[answers]`.",
        ToKernelFull "to_kernel_full" "Packets for the kernel that its ring had no room for.",
        HttpUnknown "http_unknown" "To a service of protocol http or tls, or from its backend, and of no connection.",
        ToWorkerFull "to_worker_full" "Packets of a service of protocol http or tls for whose worker there was no room in the ring.",
        HttpMalformed "http_malformed" "To a service of protocol http or tls, or from its backend, and no whole TCP segment.",
        HttpsMalformed "https_malformed" "Fragments of packets to a service of protocol https, or from its backend.",
        HttpsFull "https_full" "Packets of services of protocol https for which the terminator's ring had no room.",
    }
    Consumed {
        IcmpPieces "icmp_pieces" "Fragments of ICMP messages to us, kept until the message is whole.",
        ArpLearnt "arp_learnt" "ARP replies and announcements of neighbours.",
        NdpLearnt "ndp_learnt" "Neighbour advertisements of neighbours.",
        ToKernel "to_kernel" "Packets given to the kernel, over the interface that it has in the place of theirs.",
        ToWorker "to_worker" "Packets of a service of protocol http or tls given to the worker that has the client's connections.",
        HttpTaken "http_taken" "Segments of services of protocol http or tls that HNLB took itself: handshakes, headers, acknowledgements of its own answers.",
        HttpsTaken "https_taken" "Packets of services of protocol https given to the terminator.",
    }
    Held {
        FragmentsHeld "fragments_held" "Fragments that wait for the first one.",
        NeighbourHeld "neighbour_held" "Packets that wait for their next hop's Ethernet address.",
    }
    Originated {
        OriginatedPackets "originated" "Packets made here.",
    }
    Sent {
        TxSent "tx_sent" "Packets given to a send queue.",
    }
    Unsent {
        TxFull "tx_full" "Packets that a full send queue had no room for.",
        TxNoPort "tx_no_port" "Packets for a port that does not exist.",
    }
    Level {
        HttpOpen "http_open" "Connections of clients that services of protocol http or tls have now, also half-open ones.",
        HttpHalfOpen "http_half_open" "Those of them whose handshake is not complete.",
        HttpIdle "http_idle" "Those of them whose client has its responses and has asked for nothing more.",
        HttpHeadersHeld "http_headers_held" "Headers of services of protocol http or tls kept in 16 KiB each.",
        HttpShortHeadersHeld "http_short_headers_held" "Headers of services of protocol http or tls kept in 512 bytes each.",
        HttpBytes "http_bytes" "Bytes of memory that these connections and headers take.",
    }
    Info {
        RequestsLost "requests_lost" "Requests for next hops that the keeper's ring had no room for.",
        MatchedByMark "matched_by_mark" "Connection told by the NIC's mark.",
        MatchedByQueue "matched_by_queue" "Backend told by the receive queue.",
        MarkStale "mark_stale" "Mark without meaning or of another connection: looked up.",
        QueueStale "queue_stale" "Queue whose meaning doesn't fit the packet: looked up.",
        Sampled "sampled" "Of those matched by queue: looked up as well, for ageing.",
        LookedUp "looked_up" "Found in the connection table.",
        Missed "missed" "Not found in the connection table.",
        Installed "installed" "Connections put into the table.",
        ResetDoubted "reset_doubted" "RST with a sequence number that the client can't have reached.",
        Revoked "revoked" "Packets of connections whose backend is removed and whose service resets them: each became a RST to both sides.",
        TakenOver "taken_over" "Ended connections removed for a new one with the same 5-tuple on the backend's side.",
        Rescheduled "rescheduled" "SYN on a known 5-tuple that went to another backend, as a new connection.",
        Reopened "reopened" "SYN on the 5-tuple of a closed connection.",
        TableFullSeen "table_full_seen" "A connection found the table full.",
        EmbryonicService "embryonic_service" "A connection found that its service has as many embryonic ones as it may have.",
        EmbryonicSource "embryonic_source" "A connection found that its client's /24 or /64 has as many embryonic ones as it may have.",
        ShareUsed "share_used" "A connection found that its service's share of the table is used up.",
        TakenUp "taken_up" "Connections put into the table by an answer of their server: older than the table, or not let in before.",
        PoolTried "pool_tried" "Local endpoints of pools tried for new connections.",
        QuicNamed "quic_named" "Packets of unknown 5-tuples whose QUIC connection id named their backend.",
        Stateless "stateless" "Packets to a VIP served by Maglev alone.",
        ByAddress "by_address" "Packets of stateless services, balanced by the client's address.",
        StatelessReply "stateless_reply" "Packets from a backend translated back without a connection.",
        OffloadRequests "offload_requests" "Messages given to the offload side.",
        OffloadRingFull "offload_ring_full" "Messages that the offload side had no room for.",
        IcmpTranslated "icmp_translated" "ICMP errors translated to their connection.",
        IcmpLimited "icmp_limited" "ICMP errors and RSTs not sent because of the rate limit.",
        ClosedPortRefused "closed_port_refused" "Packets for a port of a VIP that no service has, answered.",
        NoBackendRefused "no_backend_refused" "Packets for a service without a backend that takes connections, answered.",
        ReplyConflictRefused "reply_conflict_refused" "Packets whose 5-tuple on the backend's side is another connection's, answered.",
        PoolExhaustedRefused "pool_exhausted_refused" "Packets for which a service's pool has no free local endpoint, answered.",
        NeighbourChanged "neighbour_changed" "Known neighbours that claimed another Ethernet address and were believed.",
        NeighbourRefused "neighbour_refused" "Claims of another Ethernet address for a neighbour whose own is static or pinned.",
        ResolveAsked "resolve_asked" "Next hops asked for.",
        Rerouted "rerouted" "Next hops of old connections looked up again.",
        FromKernel "from_kernel" "Packets that the kernel has sent over an interface of ours, given to a worker.",
        FromKernelUnfit "from_kernel_unfit" "Packets that the kernel has sent and that are longer than a frame of the port, or for which no buffer was free.",
        KernelRefused "kernel_refused" "Packets that the kernel's interface did not take, for instance because it is down.",
        HttpConnections "http_connections" "Connections of clients to services of protocol http or tls.",
        HttpCookies "http_cookies" "SYNs to services of protocol http or tls that were answered by a cookie, since the half-open connections were too many.",
        HttpSteady "http_steady" "Packets of services of protocol http or tls that passed on the fast path: what is behind a header, and what acknowledges it.",
        HttpsConnections "https_connections" "SYNs of clients taken by services of protocol https.",
        HttpsEstablished "https_established" "TLS handshakes done.",
        HttpsHttp2 "https_http2" "TLS connections whose client speaks HTTP/2.",
        HttpsFlood "https_flood" "Connections of HTTP/2 ended for too many frames that only cost, or a header that did not end.",
        HttpsFailed "https_failed" "TLS handshakes that failed: no version, suite or certificate in common, or bytes that are no handshake.",
        HttpsClientMissing "https_client_missing" "TLS handshakes that failed since the client has no certificate.",
        HttpsClientExpired "https_client_expired" "TLS handshakes that failed since the client's certificate is not valid yet, or not any more.",
        HttpsClientUntrusted "https_client_untrusted" "TLS handshakes that failed since the client's certificate is of no authority in client_ca.",
        HttpsClientRevoked "https_client_revoked" "TLS handshakes that failed since the client's certificate is in client_crl.",
        HttpsClientUnlisted "https_client_unlisted" "TLS handshakes that failed since client_crl has no list of the authority of the client's certificate.",
        HttpsClientInvalid "https_client_invalid" "TLS handshakes that failed since the client's certificate is not for clients, has a wrong signature or can't be read.",
        HttpsRefused "https_refused" "TLS handshakes refused since as many of the service or of the client's network wait as may.",
        HttpsSlow "https_slow" "TLS handshakes that were not done in time.",
        HttpsBadRecord "https_bad_record" "TLS connections ended for a record that could not be opened, or for a renegotiation.",
        HttpsRequests "https_requests" "Requests to services of protocol https sent to a backend.",
        HttpsDirected "https_directed" "Connections of services that terminate TLS in front of TCP given to a backend.",
        HttpsRejected "https_rejected" "Connections of services that terminate TLS in front of TCP ended since they go to no backend: no route, no protocol, or none took them.",
        HttpsCut "https_cut" "Connections of services that terminate TLS in front of TCP whose client ended them without saying so within TLS: the backend was reset.",
        HttpsAnswered "https_answered" "Requests to services of protocol https answered by a route's redirect or page.",
        HttpsErrors "https_errors" "Requests to services of protocol https answered with an error.",
        HttpsBackendFailed "https_backend_failed" "Connections for services of protocol https that a backend refused or did not answer; another backend was tried.",
        HttpsBackendUntrusted "https_backend_untrusted" "Connections for services of protocol https to a backend whose certificate is not believed, or that does not speak TLS.",
        HttpsBadResponse "https_bad_response" "Responses to requests of services of protocol https that could not be read, or ended too early.",
        HttpsNoRoom "https_no_room" "Connections to services of protocol https that had to make room for another, or found none.",
        HttpsIdle "https_idle" "Connections to services of protocol https that were silent for too long in the middle of a request or a response.",
        HttpsPathShort "https_path_short" "Reports of routers that a packet of the terminator's was too long: the next to that peer are shorter.",
        HttpsUnknown "https_unknown" "Packets of no connection given to the terminator.",
        HttpsUnsent "https_unsent" "Packets that the terminator made and could not send: no route, no buffer, or the next hop's Ethernet address isn't known yet.",
        AccessLogged "access_logged" "Lines of the access log that were written.",
        AccessLogLost "access_log_lost" "Requests that the access log lacks: there was no room for their records, or the file could not be written.",
        HttpRequests "http_requests" "Requests sent to a backend.",
        HttpBackendFailed "http_backend_failed" "Connections that a backend refused or did not answer; another backend was tried.",
        HttpOwned "http_owned" "Headers that lost a segment, so that HNLB acknowledged and kept a part of them.",
        HttpNoRoom "http_no_room" "Segments of services of protocol http or tls for which a connection, a buffer or a packet was missing.",
        HttpCongested "http_congested" "Packets that a router had marked, for a backend that does not know ECN: dropped, so that their sender slows down.",
        HttpReset "http_reset" "Connections that were reset because a request behind the first, or a response, could not be read.",
        HttpEvicted "http_evicted" "Connections to services of protocol http or tls that had to make room for others: of slow clients, or idle ones.",
        HttpSilent "http_silent" "Connections to services of protocol http or tls whose client sent nothing for a minute: reset.",
        HttpSwitched "http_switched" "Connections of clients that went on to another backend, for a request that is routed there.",
        HttpUnsent "http_unsent" "Segments that HNLB made and could not send: no route, or the next hop's Ethernet address isn't known yet.",
        HttpRedirected "http_redirected" "Requests answered by a route's redirect.",
        HttpPages "http_pages" "Requests answered by a route's page.",
        Http400 "http_400" "Requests that HNLB refused because backends could read them differently.",
        Http404 "http_404" "Requests that no route matches.",
        Http408 "http_408" "Requests whose header was not complete in time.",
        Http431 "http_431" "Requests whose header was too long.",
        Http502 "http_502" "Requests for which every backend tried refused the connection.",
        Http503 "http_503" "Requests for which no backend was up.",
        Http504 "http_504" "Requests for which no backend tried answered.",
        HttpOther "http_other" "Requests answered with another status (405, 501, 505).",
        HttpRefusedRequestLine "http_refused_request_line" "Requests refused because the request line is not a method, a target and a version.",
        HttpRefusedVersion "http_refused_version" "Requests refused because the version is neither HTTP/1.0 nor HTTP/1.1.",
        HttpRefusedTarget "http_refused_target" "Requests refused because the target is no path and no http URL.",
        HttpRefusedConnect "http_refused_connect" "Requests refused because CONNECT asks for a proxy.",
        HttpRefusedBareLine "http_refused_bare_line" "Requests refused because a line ends without CR LF, or has a CR in it.",
        HttpRefusedFolded "http_refused_folded" "Requests refused because a field goes on in the next line.",
        HttpRefusedFieldName "http_refused_field_name" "Requests refused because a field name is no token, or a space is before its colon.",
        HttpRefusedFieldValue "http_refused_field_value" "Requests refused because a field value has a control character in it.",
        HttpRefusedManyHosts "http_refused_many_hosts" "Requests refused because there are several Host fields.",
        HttpRefusedNoHost "http_refused_no_host" "Requests refused because an HTTP/1.1 request has no Host field.",
        HttpRefusedHost "http_refused_host" "Requests refused because the Host field is no host.",
        HttpRefusedHostMismatch "http_refused_host_mismatch" "Requests refused because the target and the Host field name different hosts.",
        HttpRefusedLength "http_refused_length" "Requests refused because the Content-Length is no number.",
        HttpRefusedManyLengths "http_refused_many_lengths" "Requests refused because there are several Content-Length fields.",
        HttpRefusedLengthAndCoding "http_refused_length_and_coding" "Requests refused because there are both Content-Length and Transfer-Encoding.",
        HttpRefusedChunks "http_refused_chunks" "Requests refused because the body is not chunked as it should be.",
        HttpRefusedCoding "http_refused_coding" "Requests refused because the Transfer-Encoding is not chunked alone.",
        HttpRefusedCodingBefore11 "http_refused_coding_before_11" "Requests refused because an HTTP/1.0 request has a Transfer-Encoding.",
        HttpRefusedConnection "http_refused_connection" "Requests refused because the Connection field names a field that must arrive.",
        HttpRefusedTooManyFields "http_refused_too_many_fields" "Requests refused because the header has too many fields.",
        TlsHellos "tls_hellos" "ClientHellos sent to a backend.",
        ProxyHeaders "proxy_headers" "Connections to backends of the L7 agent's that began with a header of the PROXY protocol.",
        ProxyUnserved "proxy_unserved" "Connections to services of protocol tcp with proxy_protocol that no backend took: reset.",
        TlsNotTls "tls_not_tls" "Connections to services of protocol tls whose first bytes are no TLS: reset.",
        TlsBadHello "tls_bad_hello" "ClientHellos that could not be read: ended by an alert.",
        TlsTooLong "tls_too_long" "ClientHellos longer than the limit: ended by an alert.",
        TlsSlow "tls_slow" "ClientHellos that were not complete in time: reset.",
        TlsNoRoute "tls_no_route" "ClientHellos whose server name no route has: ended by the alert unrecognized_name.",
        TlsNoProtocol "tls_no_protocol" "ClientHellos that offer no protocol of the route with their server name: ended by the alert no_application_protocol.",
        TlsNoBackend "tls_no_backend" "ClientHellos for which no backend was up: ended by an alert.",
        TlsBackendRefused "tls_backend_refused" "ClientHellos for which every backend tried refused the connection: ended by an alert.",
        TlsBackendSilent "tls_backend_silent" "ClientHellos for which no backend tried answered: ended by an alert.",
    }
    }
}

impl From<Malformed> for Counter {
    fn from(reason: Malformed) -> Self {
        match reason {
            Malformed::TooLong => Self::FrameTooLong,
            Malformed::Truncated => Self::Truncated,
            Malformed::BadVersion => Self::BadVersion,
            Malformed::BadHeaderLength => Self::BadHeaderLength,
            Malformed::BadTotalLength => Self::BadTotalLength,
            Malformed::TooManyExtensionHeaders => Self::TooManyExtensionHeaders,
            Malformed::MisplacedHopByHop => Self::MisplacedHopByHop,
            Malformed::TransportTruncated => Self::TransportTruncated,
            Malformed::TinyFragment => Self::TinyFragment,
            Malformed::BadFragment => Self::BadFragment,
            Malformed::BadOptions => Self::BadOptions,
            Malformed::SourceRoute => Self::SourceRoute,
            Malformed::SegmentsLeft => Self::SegmentsLeft,
            Malformed::BadHeaderChecksum => Self::BadHeaderChecksum,
            Malformed::BadUdpLength => Self::BadUdpLength,
            Malformed::BadDataOffset => Self::BadDataOffset,
            Malformed::BadTcpFlags => Self::BadTcpFlags,
        }
    }
}

/// One worker's counters, or the keeper's.
pub type Counters = CounterSet<Counter>;

#[cfg(test)]
mod tests {
    use crate::{CounterKind, Metric};

    use super::*;

    #[test]
    fn names_are_distinct_and_malformed_reasons_keep_theirs() {
        let mut names: Vec<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        for (at, counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, at);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Counter::ALL.len());
        for &reason in Malformed::ALL {
            assert_eq!(Counter::from(reason).name(), reason.name());
            assert_eq!(Counter::from(reason).kind(), CounterKind::Dropped);
        }
    }

    #[test]
    fn adds_up_by_kind() {
        let counters = Counters::default();
        counters.add(Counter::Received, 3);
        counters.count(Counter::WrongMac);
        counters.add(Counter::FragmentsHeld, 2);
        counters.count(Counter::Missed);
        assert_eq!(counters.balance(), (3, 3));
        counters.sub(Counter::FragmentsHeld, 2);
        assert_eq!(counters.balance(), (3, 1));
        let wrong_mac = Counter::WrongMac;
        let (name, kind, help) = (wrong_mac.name(), CounterKind::Dropped, wrong_mac.help());
        let metric = Metric { name, kind, help, value: 1 };
        assert!(counters.metrics().any(|found| found == metric));
    }
}
