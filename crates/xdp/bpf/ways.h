/* The sockets of all queues, whichever maps the driver has put them into. */
#pragma once
#include "up.h"

/* By queue, the map that has its socket: a driver that opens its queues one by one has
 * a map for each, one that opens them together has one for all. */
struct {
	UINT(type, MAP_TYPE_ARRAY_OF_MAPS);
	UINT(max_entries, 256);
	TYPE(key, u32);
	struct sockets *values[];
} ways_up SEC(".maps");

INLINE int up(struct xdp_md *context)
{
	u32 queue = context->rx_queue_index;
	void *way = map_lookup(&ways_up, &queue);

	return way ? redirect_map(way, queue, XDP_PASS) : XDP_PASS;
}
