/* Forwards packets of connections that the match table knows. */
#pragma once
#include "tunnel.h"

INLINE int forward(struct xdp_md *context)
{
	u8 *frame = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
	u64 places, bytes = end - frame;
	struct packet packet;
	struct entry *entry;
	struct action to;
	u32 index, ifindex;

	if (read_packet(&packet, frame, end) < 0)
		return XDP_PASS;
	places = hash(&packet);
	entry = look_in((u64)(u32)places * settings.slots >> 32, &packet, &to, &index);
	if (!entry)
		entry = look_in((places >> 32) * settings.slots >> 32, &packet, &to, &index);
	if (!entry)
		return XDP_PASS;
	if (!(to.fields & TUNNEL))
		rewrite(&packet, &to);
	else if (enter(context, &packet, &to, index, bytes) < 0)
		return XDP_PASS;
	/* All packets of a direction come by one queue, so by one CPU. */
	entry->packets += 1;
	entry->bytes += bytes;
	ifindex = to.version >> 32;
	if (ifindex == context->ingress_ifindex && !settings.always_redirects)
		return XDP_TX;
	return redirect(ifindex, 0);
}
