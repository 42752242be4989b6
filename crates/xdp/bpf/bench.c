/* What the benchmark runs by BPF_PROG_TEST_RUN, which repeats one packet: each run
 * makes it the next connection's first, so that the table's entries are met in turn.
 * hnlb_limit does that and swaps the Ethernet addresses, nothing else. */
#include "forward.h"

/* Written before the program is loaded. */
struct course {
	u8 mac[6];
	u8 v6;
	u8 unused;
	u32 connections;
	u32 stride;
	u8 vip[16];
};
const volatile struct course course = {};

u32 turn;

/* Makes the packet a TCP segment of the connection `turn` to port 80: its source is
 * a counter in the address's last four bytes and the port. */
INLINE int next_connection(u8 *frame, u8 *end)
{
	u32 number = turn;
	u8 *ip = frame + 14, *transport;

	turn = number + course.stride;
	if (turn >= course.connections)
		turn -= course.connections;
	if (ip + 60 > end)
		return -1;
	*(u32 *)frame = *(const volatile u32 *)&course.mac[0];
	*(u16 *)(frame + 4) = *(const volatile u16 *)&course.mac[4];
	if (course.v6) {
		transport = ip + 40;
		ip[7] = 64;
		*(u32 *)(ip + 20) = number >> 14;
		*(u64 *)(ip + 24) = *(const volatile u64 *)&course.vip[0];
		*(u64 *)(ip + 32) = *(const volatile u64 *)&course.vip[8];
	} else {
		transport = ip + 20;
		ip[8] = 64;
		*(u32 *)(ip + 12) = 10 | (u32)__builtin_bswap32(number >> 14);
		*(u32 *)(ip + 16) = *(const volatile u32 *)&course.vip[0];
	}
	*(u16 *)transport = swap16(1024 + (number & 0x3fff));
	*(u16 *)(transport + 2) = swap16(80);
	return 0;
}

SEC("xdp") int hnlb_limit(struct xdp_md *context)
{
	u8 *frame = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
	u32 upper;
	u16 lower;

	if (next_connection(frame, end) < 0 || frame + 14 > end)
		return XDP_PASS;
	upper = *(u32 *)frame;
	lower = *(u16 *)(frame + 4);
	*(u32 *)frame = *(u32 *)(frame + 6);
	*(u16 *)(frame + 4) = *(u16 *)(frame + 10);
	*(u32 *)(frame + 6) = upper;
	*(u16 *)(frame + 10) = lower;
	return XDP_TX;
}

SEC("xdp") int hnlb_xdp(struct xdp_md *context)
{
	u8 *frame = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;

	if (next_connection(frame, end) < 0)
		return XDP_PASS;
	return forward(context);
}

char gpl_compatible[] SEC("license") = "Dual BSD/GPL";
