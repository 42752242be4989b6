/* The way up to the worker: one AF_XDP socket for each receive queue. Without a
 * socket, or with a socket whose process has ended, the kernel gets the packet. */
#pragma once
#include "kernel.h"

/* Sockets by queue, as net_af_xdp fills them in. */
struct sockets {
	UINT(type, MAP_TYPE_XSKMAP);
	UINT(max_entries, 256);
	TYPE(key, u32);
	TYPE(value, u32);
};
