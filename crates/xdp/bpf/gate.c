/* The first program of a port: passes all packets up. net_af_xdp loads it, and puts
 * its sockets into the map that hnlb_forward takes over. */
#include "up.h"

struct sockets xsks_map SEC(".maps");

SEC("xdp") int hnlb_gate(struct xdp_md *context)
{
	return redirect_map(&xsks_map, context->rx_queue_index, XDP_PASS);
}

char gpl_compatible[] SEC("license") = "Dual BSD/GPL";
