/* The first program of a port: passes all packets up. net_af_xdp loads it, and puts
 * its sockets into the map that hnlb_forward takes over. */
#include "up.h"

SEC("xdp") int hnlb_gate(struct xdp_md *context)
{
	return up(context);
}

char gpl_compatible[] SEC("license") = "Dual BSD/GPL";
