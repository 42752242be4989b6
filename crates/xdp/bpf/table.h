/* The match table. The layout of entries and actions and the hash are those of
 * src/entry.rs and src/action.rs. */
#pragma once
#include "packet.h"

/* One direction of one connection: a cache line. */
struct entry {
	u64 version; /* sequence (odd: being written), and the action from bit 32 on */
	u64 packets;
	u64 bytes;
	u64 key[5];
};

/* What is done with packets; many entries share one. A cache line, and another with
 * the tunnel. */
struct action {
	u64 version; /* sequence (odd: being written), and the interface from bit 32 on */
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
enum { TUNNEL = 16, OUTER_V6 = 32, OUTER_UDP = 64 };

/* What comes in front of a packet; zero where the packet decides. */
struct outer {
	u32 header[14];
	u16 length;
	u16 sum; /* over an IPv4 header */
	u32 unused;
};

struct whole_action {
	struct action first;
	struct outer outer;
};

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
	TYPE(value, struct whole_action);
} actions SEC(".maps");

#define LOAD(place) (*(volatile typeof(place) *)&(place))

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

/* Whether the entry has the packet's key, as far as the version holds. */
INLINE int matches(struct entry *entry, const struct packet *packet)
{
	if (LOAD(entry->key[4]) != packet->key[4] || LOAD(entry->key[0]) != packet->key[0])
		return 0;
	return !packet->v6 || (LOAD(entry->key[1]) == packet->key[1] &&
			       LOAD(entry->key[2]) == packet->key[2] &&
			       LOAD(entry->key[3]) == packet->key[3]);
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

/* Takes the tunnel of an action whose other words have this version. */
INLINE int copy_outer(struct outer *copy, u32 index, u64 version)
{
	u64 *words, *copied = (u64 *)copy;

	words = map_lookup(&actions, &index);
	if (!words)
		return -1;
#pragma unroll
	for (int i = 0; i < 8; i++)
		copied[i] = LOAD(words[8 + i]);
	return LOAD(words[0]) != version ? -1 : 0;
}

/* The entry in this place and its action, if it is the packet's; NULL if not.
 *
 * The version is compared after the action was copied: an action is given to
 * another entry only after its own entries are gone, so the copy is that of the
 * packet's connection. */
INLINE struct entry *look_in(u32 place, const struct packet *packet, struct action *to, u32 *index)
{
	struct entry *entry = map_lookup(&entries, &place);
	u64 version;

	if (!entry)
		return 0;
	version = LOAD(entry->version);
	*index = version >> 32;
	if (version & 1 || !matches(entry, packet) || copy_action(to, *index) < 0 ||
	    LOAD(entry->version) != version || packet->length > to->mtu)
		return 0;
	return entry;
}
