/* An outer header in front of the packet, as crates/wire/src/encap.rs puts it there. */
#pragma once
#include "rewrite.h"

INLINE u64 mix_inner(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

/* What an outer header has of the flow; that of crates/wire/src/inner.rs. */
INLINE u32 entropy(const struct packet *packet)
{
	u64 addresses = __builtin_bswap64(packet->key[0]);

	if (packet->v6) {
		addresses = mix_inner(0, addresses);
		addresses = mix_inner(addresses, __builtin_bswap64(packet->key[1]));
		addresses = mix_inner(addresses, __builtin_bswap64(packet->key[2]));
		addresses = mix_inner(addresses, __builtin_bswap64(packet->key[3]));
	}
	return mix_inner(mix_inner(0, addresses), __builtin_bswap32((u32)packet->key[4])) >> 32;
}

/* Fills in what follows from the packet. */
INLINE void complete(struct outer *outer, const struct packet *packet, u16 fields)
{
	u32 flow = fields & (OUTER_V6 | OUTER_UDP) ? entropy(packet) : 0, sum;
	u16 total = packet->length + outer->length, behind;

	if (fields & OUTER_V6) {
		behind = total - 40;
		outer->header[0] |= __builtin_bswap32(flow >> 12);
		outer->header[1] |= swap16(behind);
	} else {
		behind = total - 20;
		outer->header[0] |= (u32)swap16(total) << 16;
		sum = (u32)outer->sum + swap16(total);
		sum = (sum & 0xffff) + (sum >> 16);
		outer->header[2] |= (u32)(u16)~sum << 16;
	}
	if (fields & OUTER_UDP) {
		u32 ports = swap16(0xc000 | (u16)flow >> 2);

		if (fields & OUTER_V6) {
			outer->header[10] |= ports;
			outer->header[11] |= swap16(behind);
		} else {
			outer->header[5] |= ports;
			outer->header[6] |= swap16(behind);
		}
	}
}

/* Takes one off the TTL of the packet inside. */
INLINE void decrement(u8 *ip, int v6)
{
	if (v6) {
		ip[7] -= 1;
	} else {
		*(u16 *)(ip + 10) = update(*(u16 *)(ip + 10), TTL_DELTA);
		ip[8] -= 1;
	}
}

/* Puts the packet behind the outer header of `to`: 0, or -1 if there is no room for
 * it or the action has changed; the packet, of `bytes` bytes, is as it was then. */
INLINE int enter(struct xdp_md *context, const struct packet *packet, const struct action *to,
		 u32 index, u32 bytes)
{
	u8 *frame, *end, *ip;
	struct outer outer;
	u32 length;

	if (packet->class || copy_outer(&outer, index, to->version) < 0)
		return -1;
	length = outer.length;
	complete(&outer, packet, to->fields);
	if (adjust_head(context, -(int)length))
		return -1;
	frame = (u8 *)(long)context->data;
	end = (u8 *)(long)context->data_end;
	/* The verifier must see how far the sum may reach: length is at most 56. */
	asm volatile("%0 &= 63" : "+r"(length));
	ip = frame + 14 + length;
	/* It can't be so; the verifier wants to be told, here and below. */
	if (ip + 28 > end || frame + 34 > end)
		return -1;
	decrement(ip, packet->v6);
	write_macs(frame, to);
	*(u16 *)(frame + 12) = to->fields & OUTER_V6 ? swap16(0x86dd) : swap16(0x0800);
#pragma unroll
	for (u32 i = 0; i < 14; i++) {
		u8 *word = frame + 14 + 4 * i;

		if (4 * i < length && word + 4 <= end)
			*(u32 *)word = outer.header[i];
	}
	/* What is behind the datagram doesn't enter. */
	if (bytes > 14U + packet->length)
		adjust_tail(context, (int)(14U + packet->length - bytes));
	return 0;
}
