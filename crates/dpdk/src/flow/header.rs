//! Pattern items as bytes: specs begin with the header as it is on the wire, so
//! every field has one place and network byte order in all DPDK releases. The
//! C shim asserts the places.
use dpdk_sys as sys;
use wire::Mac;

use super::{EthFields, Field, Ipv4Fields, Ipv6Fields, PortFields, VlanFields};

/// Bytes of the longest spec (IPv6).
pub(super) const LONGEST: usize = 44;

/// A spec, last or mask; aligned for any item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub(super) struct Bytes(pub(super) [u8; LONGEST]);

impl Bytes {
    pub(super) const ZERO: Self = Self([0; LONGEST]);

    /// The bytes of a span; empty if it is out of range, which no [`Shape`] is.
    pub(super) fn span(&self, (at, len): Span) -> &[u8] {
        self.0.get(at..at + len).unwrap_or_default()
    }

    fn span_mut(&mut self, (at, len): Span) -> &mut [u8] {
        self.0.get_mut(at..at + len).unwrap_or_default()
    }

    /// Sets every byte of a span.
    pub(super) fn fill(&mut self, span: Span, value: u8) {
        self.span_mut(span).fill(value);
    }
}

/// First byte and number of bytes.
pub(super) type Span = (usize, usize);

/// How an item type is laid out.
#[derive(Debug)]
pub(super) struct Shape {
    /// `RTE_FLOW_ITEM_TYPE_*`.
    pub(super) item: u32,
    /// Bytes of the spec.
    pub(super) size: usize,
    /// The fields that our structures carry.
    pub(super) fields: &'static [Span],
    /// Bytes between members, whose content means nothing.
    pub(super) hole: Span,
    /// A byte that belongs to a field our structures don't carry.
    pub(super) stray: Span,
}

/// A structure of fields and its place in an item.
pub(super) trait Header: Sized {
    fn put(&self, spec: &mut Bytes, mask: &mut Bytes);
    fn get(spec: &Bytes, mask: &Bytes) -> Self;
}

/// A value in network byte order.
trait Value: Sized {
    fn put(&self, to: &mut [u8]);
    fn get(from: &[u8]) -> Self;
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn put(&self, to: &mut [u8]) {
                for (to, from) in to.iter_mut().zip(self.to_be_bytes()) {
                    *to = from;
                }
            }
            fn get(from: &[u8]) -> Self {
                from.try_into().map_or(0, Self::from_be_bytes)
            }
        }
    )*};
}
number!(u8, u16, u32, u128);

impl Value for Mac {
    fn put(&self, to: &mut [u8]) {
        for (to, from) in to.iter_mut().zip(self.0) {
            *to = from;
        }
    }
    fn get(from: &[u8]) -> Self {
        from.try_into().map(Self).unwrap_or_default()
    }
}

fn put<T: Value>(field: &Field<T>, span: Span, spec: &mut Bytes, mask: &mut Bytes) {
    field.spec.put(spec.span_mut(span));
    field.mask.put(mask.span_mut(span));
}

fn get<T: Value>(span: Span, spec: &Bytes, mask: &Bytes) -> Field<T> {
    Field { spec: T::get(spec.span(span)), mask: T::get(mask.span(span)) }
}

/// The places of a structure's fields.
macro_rules! header {
    ($type:ty: $($field:ident $span:expr),*) => {
        impl Header for $type {
            fn put(&self, spec: &mut Bytes, mask: &mut Bytes) {
                $(put(&self.$field, $span, spec, mask);)*
            }
            fn get(spec: &Bytes, mask: &Bytes) -> Self {
                Self { $($field: get($span, spec, mask)),* }
            }
        }
    };
}

header!(EthFields: dst (0, 6), src (6, 6), ethertype (12, 2));
header!(VlanFields: tci (0, 2), inner_type (2, 2));
header!(Ipv4Fields: tos (1, 1), fragment (6, 2), ttl (8, 1), proto (9, 1), src (12, 4), dst (16, 4));
header!(Ipv6Fields: vtc_flow (0, 4), proto (6, 1), hop_limit (7, 1), src (8, 16), dst (24, 16));
header!(PortFields: sport (0, 2), dport (2, 2), tcp_flags (13, 1));

const NO_HOLE: Span = (0, 0);

pub(super) const ETH: Shape = Shape {
    item: sys::RTE_FLOW_ITEM_TYPE_ETH,
    size: sys::HNLB_ITEM_ETH_SIZE as usize,
    fields: &[(0, 6), (6, 6), (12, 2)],
    hole: (14, 2),
    stray: (16, 4), // has_vlan
};
pub(super) const VLAN: Shape = Shape {
    item: sys::RTE_FLOW_ITEM_TYPE_VLAN,
    size: sys::HNLB_ITEM_VLAN_SIZE as usize,
    fields: &[(0, 2), (2, 2)],
    hole: NO_HOLE,
    stray: (4, 4), // has_more_vlan
};
pub(super) const IPV4: Shape = Shape {
    item: sys::RTE_FLOW_ITEM_TYPE_IPV4,
    size: sys::HNLB_ITEM_IPV4_SIZE as usize,
    fields: &[(1, 1), (6, 2), (8, 1), (9, 1), (12, 4), (16, 4)],
    hole: NO_HOLE,
    stray: (0, 1), // version and header length
};
pub(super) const IPV6: Shape = Shape {
    item: sys::RTE_FLOW_ITEM_TYPE_IPV6,
    size: sys::HNLB_ITEM_IPV6_SIZE as usize,
    fields: &[(0, 4), (6, 1), (7, 1), (8, 16), (24, 16)],
    hole: NO_HOLE,
    stray: (4, 2), // payload length
};
pub(super) const TCP: Shape = Shape {
    item: sys::RTE_FLOW_ITEM_TYPE_TCP,
    size: sys::HNLB_ITEM_TCP_SIZE as usize,
    fields: &[(0, 2), (2, 2), (13, 1)],
    hole: NO_HOLE,
    stray: (4, 4), // sequence number
};
pub(super) const UDP: Shape = Shape {
    item: sys::RTE_FLOW_ITEM_TYPE_UDP,
    size: sys::HNLB_ITEM_UDP_SIZE as usize,
    fields: &[(0, 2), (2, 2)],
    hole: NO_HOLE,
    stray: (4, 2), // length
};

const _: () = {
    let shapes = [&ETH, &VLAN, &IPV4, &IPV6, &TCP, &UDP];
    let mut at = 0;
    while at < shapes.len() {
        assert!(shapes[at].size <= LONGEST);
        at += 1;
    }
};
