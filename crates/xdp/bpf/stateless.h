/* Services without connections: a gate (VIP, port and protocol) leads to a group, where
 * the lowest bits of the client's address choose what is done. The layout is that of
 * src/stateless.rs. */
#pragma once
#include "rewrite.h"

enum { GROUPS = 32, CLASSES = 1 << 14, PREFIXES = 8, SHARDS = 8 };
/* What an entry with such a key is. */
enum { GATE = 1, GUARD = 2 };

/* Sources that no client has: those that are `value` under `mask`. */
struct prefix {
	u64 value[2];
	u64 mask[2];
};

struct group {
	struct prefix prefixes[PREFIXES];
};

/* Numbers of gates: with a port, and with all ports. */
struct gates {
	u64 exact;
	u64 any;
};

/* One of many lines that count for an entry, so that CPUs seldom meet. */
struct count {
	u64 packets;
	u64 bytes;
	u64 unused[6];
};

struct {
	UINT(type, MAP_TYPE_ARRAY);
	UINT(map_flags, MAP_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct gates);
} gates SEC(".maps");

struct {
	UINT(type, MAP_TYPE_ARRAY);
	UINT(map_flags, MAP_MMAPABLE);
	UINT(max_entries, GROUPS);
	TYPE(key, u32);
	TYPE(value, struct group);
} groups SEC(".maps");

/* By group and class: the action (24 bits), the counter (16), a number that changes with
 * each write (22), whether some source of the class has a guard, whether there is an
 * action. */
struct {
	UINT(type, MAP_TYPE_ARRAY);
	UINT(map_flags, MAP_MMAPABLE);
	UINT(max_entries, GROUPS * CLASSES);
	TYPE(key, u32);
	TYPE(value, u64);
} cells SEC(".maps");

struct {
	UINT(type, MAP_TYPE_ARRAY);
	UINT(map_flags, MAP_MMAPABLE);
	UINT(max_entries, 4096 * SHARDS);
	TYPE(key, u32);
	TYPE(value, struct count);
} counts SEC(".maps");

/* What the entry with this key says, or -1 if there is none. */
INLINE s64 marked(const struct packet *key)
{
	u64 places = hash(key);

#pragma unroll
	for (int i = 0; i < 2; i++) {
		u32 place = (u64)(u32)places * settings.slots >> 32;
		struct entry *entry = map_lookup(&entries, &place);
		u64 version;

		if (!entry)
			return -1;
		version = LOAD(entry->version);
		if (!(version & 1) && matches(entry, key) && LOAD(entry->version) == version)
			return version >> 32;
		places >>= 32;
	}
	return -1;
}

/* The group of the packet's service, or -1. */
INLINE s64 group_of(const struct packet *packet)
{
	struct packet key = {.v6 = packet->v6};
	struct gates *present;
	u64 last = packet->key[4];
	u32 zero = 0;
	s64 group = -1;

	present = map_lookup(&gates, &zero);
	if (!present || !(LOAD(present->exact) | LOAD(present->any)))
		return -1;
	if (packet->v6) {
		key.key[2] = packet->key[2];
		key.key[3] = packet->key[3];
	} else {
		key.key[0] = packet->key[0] & 0xffffffff00000000ULL;
	}
	key.key[4] = (last & ~0xffffULL) | (u64)GATE << 48;
	if (LOAD(present->exact))
		group = marked(&key);
	if (group < 0 && LOAD(present->any)) {
		key.key[4] &= ~0xffffffffULL;
		group = marked(&key);
	}
	return group;
}

/* Whether a guard has exactly this source. */
INLINE int is_guarded(const struct packet *packet, u32 group)
{
	struct packet key = {.v6 = packet->v6};

	key.key[0] = packet->v6 ? packet->key[0] : (u32)packet->key[0];
	key.key[1] = packet->v6 ? packet->key[1] : 0;
	key.key[4] = group | (u64)(packet->v6 ? 6 : 4) << 40 | (u64)GUARD << 48;
	return marked(&key) >= 0;
}

/* Whether no client has this source. */
INLINE int is_impossible(const struct packet *packet, u32 group)
{
	struct group *own = map_lookup(&groups, &group);
	u64 first = packet->v6 ? packet->key[0] : (u32)packet->key[0];
	u64 second = packet->v6 ? packet->key[1] : 0;

	if (!own)
		return 1;
#pragma unroll
	for (int i = 0; i < PREFIXES; i++) {
		struct prefix *prefix = &own->prefixes[i];

		if ((first & LOAD(prefix->mask[0])) == LOAD(prefix->value[0]) &&
		    (second & LOAD(prefix->mask[1])) == LOAD(prefix->value[1]))
			return 1;
	}
	return 0;
}

/* Does what the client's class wants: the interface, 0 if the packet goes up, or -1 if no
 * service of this kind has it. */
INLINE s64 serve(const struct packet *packet, u64 bytes)
{
	s64 found = group_of(packet);
	u64 *cell, what;
	struct count *count;
	struct action to;
	u32 group, at;

	if (found < 0)
		return -1;
	group = found;
	at = swap16(packet->v6 ? packet->key[1] >> 48 : packet->key[0] >> 16) & (CLASSES - 1);
	at += group * CLASSES;
	cell = map_lookup(&cells, &at);
	if (!cell)
		return 0;
	what = LOAD(*cell);
	if (!(what >> 63) || (what >> 62 & 1 && is_guarded(packet, group)) ||
	    is_impossible(packet, group) || copy_action(&to, what & 0xffffff) < 0 ||
	    LOAD(*cell) != what || packet->length > to.mtu)
		return 0;
	rewrite(packet, &to);
	at = (what >> 24 & 0xffff) * SHARDS + (processor() & (SHARDS - 1));
	count = map_lookup(&counts, &at);
	if (count) {
		__sync_fetch_and_add(&count->packets, 1);
		__sync_fetch_and_add(&count->bytes, bytes);
	}
	return to.version >> 32;
}
