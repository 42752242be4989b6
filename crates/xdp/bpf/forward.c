/* The program of a port: forwards what the match table knows, passes all else up. */
#include "forward.h"
#include "ways.h"

SEC("xdp") int hnlb_forward(struct xdp_md *context)
{
	int verdict = forward(context);

	return verdict == XDP_PASS ? up(context) : verdict;
}

char gpl_compatible[] SEC("license") = "Dual BSD/GPL";
