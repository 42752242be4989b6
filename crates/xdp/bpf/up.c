/* The program of a port where the kernel refuses forward.c: passes all packets up, of all
 * queues, which a gate can do only for those whose sockets are in its own map. */
#include "ways.h"

SEC("xdp") int hnlb_up(struct xdp_md *context)
{
	return up(context);
}

char gpl_compatible[] SEC("license") = "Dual BSD/GPL";
