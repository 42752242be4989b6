/* New headers in the place of the packet's. */
#pragma once
#include "table.h"

/* RFC 1624. The sum of ones' complements doesn't depend on the order of bytes, so
 * fields and deltas are both taken as they lie in memory. */
INLINE u16 update(u16 field, u16 delta)
{
	u32 sum = (u16)~field + delta;

	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* One off the TTL, in the IPv4 header's checksum. */
enum { TTL_DELTA = 0xfffe };

INLINE void write_macs(u8 *frame, const struct action *to)
{
	*(u32 *)frame = *(u32 *)&to->mac_destination[0];
	*(u16 *)(frame + 4) = *(u16 *)&to->mac_destination[4];
	*(u16 *)(frame + 6) = *(u16 *)&to->mac_source[0];
	*(u32 *)(frame + 8) = *(u32 *)&to->mac_source[2];
}

INLINE void write_ports(const struct packet *packet, const struct action *to)
{
	if (to->fields & SOURCE_PORT)
		*(u16 *)packet->transport = to->ports[0];
	if (to->fields & DESTINATION_PORT)
		*(u16 *)(packet->transport + 2) = to->ports[1];
}

INLINE void write_checksum(const struct packet *packet, const struct action *to)
{
	if (packet->protocol == 6) {
		u16 *field = (u16 *)(packet->transport + 16);

		*field = update(*field, to->transport_delta);
	} else {
		u16 *field = (u16 *)(packet->transport + 6);
		u16 updated = update(*field, to->transport_delta);

		if (*field)
			*field = updated ? updated : 0xffff;
	}
}

INLINE void write_v4(u8 *ip, const struct action *to)
{
	const u32 *addresses = (const u32 *)to->addresses;

	if (to->fields & SOURCE)
		*(u32 *)(ip + 12) = addresses[0];
	if (to->fields & DESTINATION)
		*(u32 *)(ip + 16) = addresses[1];
	*(u16 *)(ip + 10) = update(*(u16 *)(ip + 10), to->net_delta);
	ip[8] -= 1;
}

INLINE void write_v6(u8 *ip, const struct action *to)
{
	if (to->fields & SOURCE) {
		*(u64 *)(ip + 8) = to->addresses[0];
		*(u64 *)(ip + 16) = to->addresses[1];
	}
	if (to->fields & DESTINATION) {
		*(u64 *)(ip + 24) = to->addresses[2];
		*(u64 *)(ip + 32) = to->addresses[3];
	}
	ip[7] -= 1;
}

INLINE void rewrite(const struct packet *packet, const struct action *to)
{
	write_checksum(packet, to);
	write_macs(packet->frame, to);
	write_ports(packet, to);
	if (packet->v6)
		write_v6(packet->ip, to);
	else
		write_v4(packet->ip, to);
}
