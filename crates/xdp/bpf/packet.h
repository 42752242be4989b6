/* Packets that the program may forward. */
#pragma once
#include "kernel.h"

/* Written before the program is loaded. */
struct settings {
	u64 seed;
	u32 slots;
	u8 mac[6];
	u8 always_redirects; /* also out of the interface where the packet arrived */
	u8 unused[5];
};
const volatile struct settings settings = {};

struct packet {
	u8 *frame;
	u8 *ip;
	u8 *transport;
	u64 key[5];
	u16 length; /* of the datagram */
	u8 protocol;
	u8 v6;
	u8 class; /* not zero if the traffic class is not */
	u8 events; /* SYN, RST and FIN */
};

INLINE u16 swap16(u16 value)
{
	return __builtin_bswap16(value);
}

/* A length that is added to a pointer: verifiers before Linux 6.13 don't see that a
 * swapped number has 16 bits. */
INLINE u64 bounded(u64 length)
{
	asm volatile("%0 &= 0xffff" : "+r"(length));
	return length;
}

/* TCP and UDP: 0 if the packet is one. */
INLINE int read_transport(struct packet *packet, u8 *end, u32 header)
{
	u8 *transport = packet->ip + header;

	packet->transport = transport;
	packet->events = 0;
	if (packet->protocol == 6) {
		if (transport + 20 > end || packet->length < header + 20)
			return -1;
		packet->events = transport[13] & 0x07;
	} else if (packet->protocol == 17) {
		if (transport + 8 > end || packet->length < header + 8)
			return -1;
	} else {
		return -1;
	}
	packet->key[4] = *(u32 *)transport | (u64)packet->protocol << 32 |
			 (u64)(packet->v6 ? 6 : 4) << 40;
	return 0;
}

INLINE int read_v4(struct packet *packet, u8 *end)
{
	u8 *ip = packet->ip;

	if (ip + 20 > end || ip[0] != 0x45 || ip[8] < 2)
		return -1;
	packet->length = swap16(*(u16 *)(ip + 2));
	/* MF and the offset; the reserved bit and DF are none of our business. */
	if (*(u16 *)(ip + 6) & swap16(0x3fff) || ip + bounded(packet->length) > end)
		return -1;
	packet->protocol = ip[9];
	packet->v6 = 0;
	packet->class = ip[1];
	packet->key[0] = *(u64 *)(ip + 12);
	return read_transport(packet, end, 20);
}

INLINE int read_v6(struct packet *packet, u8 *end)
{
	u8 *ip = packet->ip;
	u32 length;

	if (ip + 40 > end || ip[0] >> 4 != 6 || ip[7] < 2)
		return -1;
	length = 40 + swap16(*(u16 *)(ip + 4));
	if (length > 0xffff || ip + bounded(length) > end)
		return -1;
	packet->length = length;
	packet->protocol = ip[6];
	packet->v6 = 1;
	packet->class = (ip[0] & 0x0f) | (ip[1] & 0xf0);
	packet->key[0] = *(u64 *)(ip + 8);
	packet->key[1] = *(u64 *)(ip + 16);
	packet->key[2] = *(u64 *)(ip + 24);
	packet->key[3] = *(u64 *)(ip + 32);
	return read_transport(packet, end, 40);
}

INLINE int read_packet(struct packet *packet, u8 *frame, u8 *end)
{
	packet->frame = frame;
	packet->ip = frame + 14;
	if (frame + 14 > end || *(u32 *)frame != *(const volatile u32 *)&settings.mac[0] ||
	    *(u16 *)(frame + 4) != *(const volatile u16 *)&settings.mac[4])
		return -1;
	if (*(u16 *)(frame + 12) == swap16(0x0800))
		return read_v4(packet, end);
	if (*(u16 *)(frame + 12) == swap16(0x86dd))
		return read_v6(packet, end);
	return -1;
}
