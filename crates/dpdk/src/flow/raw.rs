//! A rule as the C arrays that `rte_flow_create` takes.
use dpdk_sys as sys;

use super::header::{self, Bytes, Header, Shape};
use super::raw_action::RawActions;
use super::{Attributes, Item, Match, Rule};

/// The C arrays of a rule, END-terminated, with all that they point to. Their
/// addresses stay when this value moves.
#[derive(Debug)]
pub struct RawRule {
    attr: sys::rte_flow_attr,
    items: Vec<sys::rte_flow_item>,
    actions: RawActions,
    /// What `items` points to: spec, last and mask of each; never touched again.
    _specs: Vec<[Bytes; 3]>,
}

// SAFETY: the pointers lead to memory that this value owns and nobody writes.
unsafe impl Send for RawRule {}
// SAFETY: as above.
unsafe impl Sync for RawRule {}

/// Which of spec, last and mask an item has.
#[derive(Clone, Copy)]
enum Has {
    Nothing,
    SpecMask,
    All,
}

impl RawRule {
    /// The C form of `rule`.
    ///
    /// `Match::Range` becomes some range and `Match::Unsupported` some field that
    /// no structure carries, as neither keeps what it was; both are refused by
    /// every card we know. An item or action known by its number only has no
    /// spec or configuration.
    #[must_use]
    pub fn lower(rule: &Rule) -> Self {
        Self::lower_for(rule, 0)
    }

    /// As [`Self::lower`], with `context` for the driver to report when AGE's
    /// timeout passes; 0: the driver's pointer to the rule.
    pub(super) fn lower_for(rule: &Rule, context: usize) -> Self {
        let lowered: Vec<_> = rule.pattern.iter().map(lower_item).collect();
        let specs: Vec<[Bytes; 3]> = lowered.iter().map(|(_, _, bytes)| *bytes).collect();
        let mut items: Vec<_> = lowered
            .iter()
            .zip(&specs)
            .map(|((item, has, _), [spec, last, mask])| {
                let given = |bytes: &Bytes, is: bool| {
                    if is { std::ptr::from_ref(bytes).cast() } else { std::ptr::null() }
                };
                sys::rte_flow_item {
                    type_: *item,
                    spec: given(spec, !matches!(has, Has::Nothing)),
                    last: given(last, matches!(has, Has::All)),
                    mask: given(mask, !matches!(has, Has::Nothing)),
                }
            })
            .collect();
        items.push(sys::rte_flow_item {
            type_: sys::RTE_FLOW_ITEM_TYPE_END,
            spec: std::ptr::null(),
            last: std::ptr::null(),
            mask: std::ptr::null(),
        });
        Self {
            attr: lower_attributes(&rule.attributes),
            items,
            actions: RawActions::lower(&rule.actions, context),
            _specs: specs,
        }
    }

    /// Attributes, pattern and actions, valid as long as `self` is borrowed.
    #[must_use]
    pub fn as_ptrs(
        &self,
    ) -> (*const sys::rte_flow_attr, *const sys::rte_flow_item, *const sys::rte_flow_action) {
        (&raw const self.attr, self.items.as_ptr(), self.actions.as_ptr())
    }
}

fn lower_attributes(attributes: &Attributes) -> sys::rte_flow_attr {
    // SAFETY: numbers only: zero is valid.
    let mut attr: sys::rte_flow_attr = unsafe { std::mem::zeroed() };
    attr.group = attributes.group;
    attr.priority = attributes.priority;
    attr.set_ingress(u32::from(attributes.ingress));
    attr.set_egress(u32::from(attributes.egress));
    attr.set_transfer(u32::from(attributes.transfer));
    attr
}

fn lower_item(item: &Item) -> (u32, Has, [Bytes; 3]) {
    match item {
        Item::Eth(fields) => lower_match(fields, &header::ETH),
        Item::Vlan(fields) => lower_match(fields, &header::VLAN),
        Item::Ipv4(fields) => lower_match(fields, &header::IPV4),
        Item::Ipv6(fields) => lower_match(fields, &header::IPV6),
        Item::Tcp(fields) => lower_match(fields, &header::TCP),
        Item::Udp(fields) => {
            let (item, has, mut bytes) = lower_match(fields, &header::UDP);
            // The structure is TCP's, too: what is behind UDP's header is not UDP's.
            for bytes in &mut bytes {
                bytes.fill((header::UDP.size, header::LONGEST - header::UDP.size), 0);
            }
            (item, has, bytes)
        }
        Item::Other(number) => (*number, Has::Nothing, [Bytes::ZERO; 3]),
    }
}

fn lower_match<T: Header>(fields: &Match<T>, shape: &Shape) -> (u32, Has, [Bytes; 3]) {
    let [mut spec, mut last, mut mask] = [Bytes::ZERO; 3];
    let has = match fields {
        Match::Present => Has::Nothing,
        Match::Fields(fields) => {
            fields.put(&mut spec, &mut mask);
            Has::SpecMask
        }
        Match::Range => {
            for span in shape.fields.iter().take(1) {
                last.fill(*span, 0xff);
                mask.fill(*span, 0xff);
            }
            Has::All
        }
        Match::Unsupported => {
            mask.fill(shape.stray, 0xff);
            Has::SpecMask
        }
    };
    (shape.item, has, [spec, last, mask])
}
