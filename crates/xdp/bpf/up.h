/* The way up to the worker: one AF_XDP socket for each receive queue. Without a
 * socket, or with a socket whose process has ended, the kernel gets the packet. */
#pragma once
#include "kernel.h"

struct {
	UINT(type, MAP_TYPE_XSKMAP);
	UINT(max_entries, 256);
	TYPE(key, u32);
	TYPE(value, u32);
} xsks_map SEC(".maps");

INLINE int up(struct xdp_md *context)
{
	return redirect_map(&xsks_map, context->rx_queue_index, XDP_PASS);
}
