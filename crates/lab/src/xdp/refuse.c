/* Preloaded into HNLB: each program that it loads with one of the names in REFUSED, divided
 * by commas, is replaced by one that reads a packet without a bounds check, so that the
 * kernel's own verifier refuses it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static const struct bpf_insn unbounded[] = {
	{ .code = BPF_LDX | BPF_W | BPF_MEM, .dst_reg = 2, .src_reg = 1 },
	{ .code = BPF_LDX | BPF_B | BPF_MEM, .dst_reg = 0, .src_reg = 2, .off = 13 },
	{ .code = BPF_JMP | BPF_EXIT },
};

static int is_refused(const char *name)
{
	const char *names = getenv("REFUSED");
	size_t length = strnlen(name, BPF_OBJ_NAME_LEN);

	for (; names && length; names = strchr(names, ','), names += names ? 1 : 0)
		if (!strncmp(names, name, length) && (!names[length] || names[length] == ','))
			return 1;
	return 0;
}

long syscall(long number, ...)
{
	static long (*libc)(long, ...);
	union bpf_attr attributes;
	long argument[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(list, long);
	va_end(list);
	if (!libc)
		libc = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_bpf && argument[0] == BPF_PROG_LOAD) {
		size_t length = argument[2] < (long)sizeof attributes ? argument[2] : sizeof attributes;

		memset(&attributes, 0, sizeof attributes);
		memcpy(&attributes, (void *)argument[1], length);
		if (is_refused(attributes.prog_name)) {
			attributes.insns = (unsigned long)unbounded;
			attributes.insn_cnt = sizeof unbounded / sizeof *unbounded;
			attributes.func_info_cnt = 0;
			attributes.line_info_cnt = 0;
			argument[1] = (long)&attributes;
			argument[2] = sizeof attributes;
		}
	}
	return libc(number, argument[0], argument[1], argument[2], argument[3], argument[4],
		    argument[5]);
}
