/* The program of a port: forwards what the match table knows, passes all else up. */
#include "forward.h"

SEC("xdp") int hnlb_forward(struct xdp_md *context)
{
	return forward(context);
}

char gpl_compatible[] SEC("license") = "Dual BSD/GPL";
