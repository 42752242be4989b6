/* For a test: reads a byte of the packet without a bounds check, so that every kernel's
 * verifier refuses it. All else is as in forward.c. */
#include "forward.h"

SEC("xdp") int hnlb_unbounded(struct xdp_md *context)
{
	const volatile u8 *frame = (const volatile u8 *)(long)context->data;

	return frame[13] ? XDP_PASS : forward(context);
}

char gpl_compatible[] SEC("license") = "Dual BSD/GPL";
