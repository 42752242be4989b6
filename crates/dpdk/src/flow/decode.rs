//! From the C arrays back to a typed rule, read as a driver reads them.
use std::ffi::c_void;

use dpdk_sys as sys;

use super::decode_action::decode_actions;
use super::header::{self, Bytes, Header, Shape};
use super::raw::RawRule;
use super::{Attributes, FlowError, FlowErrorKind, Item, Match, Rule};

/// Most items or actions before END; longer arrays are taken for broken.
pub(super) const MOST: usize = 64;

/// What the arrays of `raw` say.
///
/// # Errors
/// As [`decode_raw`].
pub fn decode(raw: &RawRule) -> Result<Rule, FlowError> {
    let (attr, pattern, actions) = raw.as_ptrs();
    // SAFETY: a RawRule's arrays are complete, END-terminated and borrowed.
    unsafe { decode_raw(attr, pattern, actions) }
}

/// What the C arrays say, read by the rules of rte_flow: VOID is skipped; a
/// null mask is the item's default mask; a `last` that is zero or as the spec
/// in every field is no range; spec, last and mask all null: the header is there.
///
/// # Errors
/// ENOTSUP for an RSS or PORT_ID that is more than [`super::Action`] can say.
/// EINVAL for what can't be read: null arrays, no END within 64 entries, last
/// or mask without spec, an action without the configuration it needs.
///
/// # Safety
/// Each pointer is null or leads to valid attributes, to items ended by END,
/// to actions ended by END, and what these point to is valid for their types.
pub unsafe fn decode_raw(
    attr: *const sys::rte_flow_attr,
    pattern: *const sys::rte_flow_item,
    actions: *const sys::rte_flow_action,
) -> Result<Rule, FlowError> {
    // SAFETY: the caller's promise: null or valid.
    let attr = unsafe { attr.as_ref() }
        .ok_or_else(|| invalid(FlowErrorKind::Attribute, "the attributes are missing"))?;
    let attributes = Attributes {
        group: attr.group,
        priority: attr.priority,
        ingress: attr.ingress() != 0,
        egress: attr.egress() != 0,
        transfer: attr.transfer() != 0,
    };
    // SAFETY: the caller's promise for items and actions.
    let (pattern, actions) = unsafe { (decode_pattern(pattern)?, decode_actions(actions)?) };
    Ok(Rule { attributes, pattern, actions })
}

/// # Safety
/// As for [`decode_raw`].
unsafe fn decode_pattern(items: *const sys::rte_flow_item) -> Result<Vec<Item>, FlowError> {
    if items.is_null() {
        return Err(invalid(FlowErrorKind::Item, "the pattern is missing"));
    }
    let mut pattern = Vec::new();
    for at in 0..MOST {
        // SAFETY: all entries up to END exist, and END was not met yet.
        let item = unsafe { &*items.add(at) };
        match item.type_ {
            sys::RTE_FLOW_ITEM_TYPE_END => return Ok(pattern),
            sys::RTE_FLOW_ITEM_TYPE_VOID => {}
            // SAFETY: the caller's promise for this item.
            _ => pattern.push(unsafe { decode_item(item)? }),
        }
    }
    Err(invalid(FlowErrorKind::Item, "the pattern has no END"))
}

/// # Safety
/// What the item points to is valid for its type.
unsafe fn decode_item(item: &sys::rte_flow_item) -> Result<Item, FlowError> {
    // SAFETY, for all of these: the caller's promise, and the type of the item
    // is the shape's.
    Ok(match item.type_ {
        // SAFETY: see above.
        sys::RTE_FLOW_ITEM_TYPE_ETH => Item::Eth(unsafe { decode_match(item, &header::ETH)? }),
        // SAFETY: see above.
        sys::RTE_FLOW_ITEM_TYPE_VLAN => Item::Vlan(unsafe { decode_match(item, &header::VLAN)? }),
        // SAFETY: see above.
        sys::RTE_FLOW_ITEM_TYPE_IPV4 => Item::Ipv4(unsafe { decode_match(item, &header::IPV4)? }),
        // SAFETY: see above.
        sys::RTE_FLOW_ITEM_TYPE_IPV6 => Item::Ipv6(unsafe { decode_match(item, &header::IPV6)? }),
        // SAFETY: see above.
        sys::RTE_FLOW_ITEM_TYPE_TCP => Item::Tcp(unsafe { decode_match(item, &header::TCP)? }),
        // SAFETY: see above.
        sys::RTE_FLOW_ITEM_TYPE_UDP => Item::Udp(unsafe { decode_match(item, &header::UDP)? }),
        other => Item::Other(other),
    })
}

/// # Safety
/// The item's pointers are null or lead to the structure of `shape`.
unsafe fn decode_match<T: Header>(
    item: &sys::rte_flow_item,
    shape: &Shape,
) -> Result<Match<T>, FlowError> {
    if item.spec.is_null() {
        if !item.last.is_null() || !item.mask.is_null() {
            return Err(invalid(FlowErrorKind::Item, "an item has a mask or last but no spec"));
        }
        return Ok(Match::Present);
    }
    let mask = if item.mask.is_null() {
        // SAFETY: gives a static structure for every type that has a shape.
        unsafe { sys::hnlb_item_default_mask(item.type_) }
    } else {
        item.mask
    };
    // SAFETY: spec and mask are valid structures of this shape.
    let (spec, mask) = unsafe { (copy(item.spec, shape), copy(mask, shape)) };
    if !only_known_fields(&mask, shape) {
        return Ok(Match::Unsupported);
    }
    if !item.last.is_null() {
        // SAFETY: last is a valid structure of this shape.
        let last = unsafe { copy(item.last, shape) };
        if is_range(&spec, &last, &mask, shape) {
            return Ok(Match::Range);
        }
    }
    Ok(Match::Fields(T::get(&spec, &mask)))
}

/// The bytes of a structure, without those between its members.
///
/// # Safety
/// `from` is null or leads to a structure of `shape`.
unsafe fn copy(from: *const c_void, shape: &Shape) -> Bytes {
    let mut bytes = Bytes::ZERO;
    let (hole, hole_len) = shape.hole;
    if from.is_null() {
        return bytes;
    }
    let to = bytes.0.as_mut_ptr();
    let from = from.cast::<u8>();
    let behind = hole + hole_len;
    // SAFETY: `shape.size` bytes are readable but for the hole, which is within
    // them, and fit (checked when compiling).
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, hole);
        std::ptr::copy_nonoverlapping(from.add(behind), to.add(behind), shape.size - behind);
    }
    bytes
}

/// Whether the mask is zero outside the fields that our structures carry.
fn only_known_fields(mask: &Bytes, shape: &Shape) -> bool {
    let mut rest = *mask;
    for span in shape.fields {
        rest.fill(*span, 0);
    }
    rest == Bytes::ZERO
}

/// Whether `last` says more than `spec` in a field that counts.
fn is_range(spec: &Bytes, last: &Bytes, mask: &Bytes, shape: &Shape) -> bool {
    shape.fields.iter().any(|span| {
        let masked = |bytes: &Bytes| -> Vec<u8> {
            bytes.span(*span).iter().zip(mask.span(*span)).map(|(byte, mask)| byte & mask).collect()
        };
        let last = masked(last);
        last.iter().any(|byte| *byte != 0) && last != masked(spec)
    })
}

pub(super) fn invalid(kind: FlowErrorKind, message: &str) -> FlowError {
    FlowError { kind, errno: FlowError::INVALID, message: message.to_owned() }
}
