/* Forwards packets of connections that the match table knows, and of services without
 * connections. */
#pragma once
#include "stateless.h"
#include "tunnel.h"

/* By the interface's index: since Linux 5.6 the kernel sends such packets in bulks, as those
 * of a DEVMAP, which would be one more table to keep. */
INLINE int leave(struct xdp_md *context, u32 ifindex)
{
	if (ifindex == context->ingress_ifindex && !settings.always_redirects)
		return XDP_TX;
	return redirect(ifindex, 0);
}

INLINE int forward(struct xdp_md *context)
{
	u8 *frame = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
	u64 places, bytes = end - frame;
	struct packet packet;
	struct entry *entry;
	struct action to;
	u32 index;
	s64 out;

	if (read_packet(&packet, frame, end) < 0)
		return XDP_PASS;
	out = serve(&packet, bytes);
	if (out >= 0)
		return out ? leave(context, out) : XDP_PASS;
	if (packet.events)
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
	return leave(context, to.version >> 32);
}
