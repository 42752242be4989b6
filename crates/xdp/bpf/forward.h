/* Forwards packets of connections that the match table knows. The layout of
 * entries and actions and the hash are those of src/entry.rs and src/action.rs. */
#pragma once
#include "kernel.h"

/* One direction of one connection: a cache line. */
struct entry {
	u64 version; /* sequence (odd: being written), and the action from bit 32 on */
	u64 packets;
	u64 bytes;
	u64 key[5];
};

/* What is done with packets; many entries share one. A cache line. */
struct action {
	u32 sequence;
	u32 ifindex;
	u64 addresses[4];
	u16 ports[2];
	u16 transport_delta;
	u16 net_delta; /* with one off the TTL */
	u8 mac_destination[6];
	u16 mtu;
	u8 mac_source[6];
	u16 fields;
};

enum { SOURCE = 1, DESTINATION = 2, SOURCE_PORT = 4, DESTINATION_PORT = 8 };

struct {
	UINT(type, MAP_TYPE_ARRAY);
	UINT(map_flags, MAP_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct entry);
} entries SEC(".maps");

struct {
	UINT(type, MAP_TYPE_ARRAY);
	UINT(map_flags, MAP_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct action);
} actions SEC(".maps");

/* Written before the program is loaded. */
struct settings {
	u64 seed;
	u32 slots;
	u8 mac[6];
	u8 always_redirects; /* also out of the interface where the packet arrived */
	u8 unused[5];
};
const volatile struct settings settings = {};

#define LOAD(place) (*(volatile typeof(place) *)&(place))

struct packet {
	u8 *frame;
	u8 *ip;
	u8 *transport;
	u64 key[5];
	u16 length; /* of the datagram */
	u8 protocol;
	u8 v6;
};

INLINE u16 swap16(u16 value)
{
	return __builtin_bswap16(value);
}

/* RFC 1624. The sum of ones' complements doesn't depend on the order of bytes, so
 * fields and deltas are both taken as they lie in memory. */
INLINE u16 update(u16 field, u16 delta)
{
	u32 sum = (u16)~field + delta;

	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

INLINE u64 mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 32);
}

INLINE u64 hash(const struct packet *packet)
{
	u64 hash = mix(settings.seed, packet->key[0]);

	if (packet->v6) {
		hash = mix(hash, packet->key[1]);
		hash = mix(hash, packet->key[2]);
		hash = mix(hash, packet->key[3]);
	}
	return mix(hash, packet->key[4]);
}

/* TCP without SYN, FIN and RST, and UDP: 0 if the packet is one. */
INLINE int read_transport(struct packet *packet, u8 *end, u32 header)
{
	u8 *transport = packet->ip + header;

	packet->transport = transport;
	if (packet->protocol == 6) {
		if (transport + 20 > end || packet->length < header + 20 || transport[13] & 0x07)
			return -1;
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
	if (*(u16 *)(ip + 6) & swap16(0x3fff) || ip + packet->length > end)
		return -1;
	packet->protocol = ip[9];
	packet->v6 = 0;
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
	if (length > 0xffff || ip + length > end)
		return -1;
	packet->length = length;
	packet->protocol = ip[6];
	packet->v6 = 1;
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

/* Whether the entry has the packet's key, as far as the version holds. */
INLINE int matches(struct entry *entry, const struct packet *packet)
{
	if (LOAD(entry->key[4]) != packet->key[4] || LOAD(entry->key[0]) != packet->key[0])
		return 0;
	return !packet->v6 || (LOAD(entry->key[1]) == packet->key[1] &&
			       LOAD(entry->key[2]) == packet->key[2] &&
			       LOAD(entry->key[3]) == packet->key[3]);
}

INLINE void write_macs_and_ports(const struct packet *packet, const struct action *to)
{
	*(u32 *)packet->frame = *(u32 *)&to->mac_destination[0];
	*(u16 *)(packet->frame + 4) = *(u16 *)&to->mac_destination[4];
	*(u16 *)(packet->frame + 6) = *(u16 *)&to->mac_source[0];
	*(u32 *)(packet->frame + 8) = *(u32 *)&to->mac_source[2];
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

/* Takes the action's words as they were at one time: 0, or -1 if it is being written. */
INLINE int copy_action(struct action *copy, u32 index)
{
	u64 *words, *copied = (u64 *)copy, before;

	words = map_lookup(&actions, &index);
	if (!words)
		return -1;
	before = LOAD(words[0]);
#pragma unroll
	for (int i = 1; i < 8; i++)
		copied[i] = LOAD(words[i]);
	copied[0] = before;
	return before & 1 || LOAD(words[0]) != before ? -1 : 0;
}

/* The action of the entry in this place, if it is the packet's: 0, or -1.
 *
 * The version is compared after the action was copied: an action is given to
 * another entry only after its own entries are gone, so the copy is that of the
 * packet's connection. */
INLINE int look_in(u32 place, const struct packet *packet, struct action *to, u64 bytes)
{
	struct entry *entry = map_lookup(&entries, &place);
	u64 version;

	if (!entry)
		return -1;
	version = LOAD(entry->version);
	if (version & 1 || !matches(entry, packet) || copy_action(to, version >> 32) < 0 ||
	    LOAD(entry->version) != version || packet->length > to->mtu)
		return -1;
	/* All packets of a direction come by one queue, so by one CPU. */
	entry->packets += 1;
	entry->bytes += bytes;
	return 0;
}

INLINE int forward(struct xdp_md *context)
{
	u8 *frame = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
	struct packet packet;
	struct action to;
	u64 places;

	if (read_packet(&packet, frame, end) < 0)
		return XDP_PASS;
	places = hash(&packet);
	if (look_in((u64)(u32)places * settings.slots >> 32, &packet, &to, end - frame) < 0 &&
	    look_in((places >> 32) * settings.slots >> 32, &packet, &to, end - frame) < 0)
		return XDP_PASS;
	write_checksum(&packet, &to);
	write_macs_and_ports(&packet, &to);
	if (packet.v6)
		write_v6(packet.ip, &to);
	else
		write_v4(packet.ip, &to);
	if (to.ifindex == context->ingress_ifindex && !settings.always_redirects)
		return XDP_TX;
	return redirect(to.ifindex, 0);
}
