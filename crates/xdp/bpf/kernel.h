/* What the programs need of the kernel's interface (include/uapi/linux/bpf.h):
 * all of it is stable, so no kernel headers are needed. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define UINT(name, value) int (*name)[value]
#define TYPE(name, value) typeof(value) *name

enum { MAP_TYPE_ARRAY = 2, MAP_TYPE_ARRAY_OF_MAPS = 12, MAP_TYPE_XSKMAP = 17 };
enum { MAP_MMAPABLE = 1 << 10 };
enum { XDP_PASS = 2, XDP_TX = 3, XDP_REDIRECT = 4 };

struct xdp_md {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_ifindex;
	u32 rx_queue_index;
	u32 egress_ifindex;
};

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u32 (*const processor)(void) = (void *)8;
static long (*const redirect)(u32 ifindex, u64 flags) = (void *)23;
static long (*const adjust_head)(struct xdp_md *context, int by) = (void *)44;
static long (*const adjust_tail)(struct xdp_md *context, int by) = (void *)65;
static long (*const redirect_map)(void *map, u32 key, u64 otherwise) = (void *)51;
