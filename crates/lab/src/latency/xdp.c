/* What XenoFlow's eBPF variant does: the last bit of the client's IPv4 address
 * chooses one of two backends, whose Ethernet address the packet gets; it leaves
 * by the way it came. Needs no header files. VIP, EVEN, ODD and OWN are given
 * on the command line. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

struct xdp_md {
    u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
enum { XDP_DROP = 1, XDP_PASS = 2, XDP_TX = 3 };

struct eth {
    u8 dst[6], src[6];
    u16 type;
} __attribute__((packed));
struct ipv4 {
    u8 version, tos;
    u16 length, id, fragment;
    u8 ttl, proto;
    u16 sum;
    u8 src[4], dst[4];
} __attribute__((packed));

static const u8 vip[4] = {VIP}, even[6] = {EVEN}, odd[6] = {ODD}, own[6] = {OWN};

__attribute__((section("xdp"), used)) int balance(struct xdp_md *context)
{
    u8 *end = (u8 *)(long)context->data_end;
    struct eth *eth = (struct eth *)(long)context->data;
    struct ipv4 *ip = (struct ipv4 *)(eth + 1);
    if ((u8 *)(ip + 1) > end || eth->type != 0x0008 || ip->proto != 17)
        return XDP_PASS;
    for (int i = 0; i < 4; i++)
        if (ip->dst[i] != vip[i])
            return XDP_PASS;
    int bit = ip->src[3] & 1;
    for (int i = 0; i < 6; i++) {
        eth->dst[i] = bit ? odd[i] : even[i];
        eth->src[i] = own[i];
    }
    return XDP_TX;
}

__attribute__((section("xdp/pass"), used)) int pass(struct xdp_md *context)
{
    return XDP_PASS;
}

char terms[] __attribute__((section("license"), used)) = "Dual MIT/GPL";
