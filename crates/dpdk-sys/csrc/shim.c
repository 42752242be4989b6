/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The asynchronous rte_flow calls are experimental in every release. */
#define ALLOW_EXPERIMENTAL_API

#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_hash_crc.h>
#include <rte_jhash.h>

#include "shim.h"

/* ---- what the Rust side believes of the items' layouts ----------------- */

/* Specs start with the header as it is on the wire; these asserts hold the
 * offsets that crates/dpdk/src/flow relies on, for every DPDK release. Since
 * 22.11 every item has a member named hdr.
 */
#define ITEM_AT(item, member, at) \
	_Static_assert(offsetof(struct rte_flow_item_##item, hdr.member) == (at), #item "." #member)

ITEM_AT(eth, dst_addr, 0);
ITEM_AT(eth, src_addr, 6);
ITEM_AT(eth, ether_type, 12);
ITEM_AT(vlan, vlan_tci, 0);
ITEM_AT(vlan, eth_proto, 2);
ITEM_AT(ipv4, type_of_service, 1);
ITEM_AT(ipv4, fragment_offset, 6);
ITEM_AT(ipv4, time_to_live, 8);
ITEM_AT(ipv4, next_proto_id, 9);
ITEM_AT(ipv4, src_addr, 12);
ITEM_AT(ipv4, dst_addr, 16);
ITEM_AT(ipv6, proto, 6);
ITEM_AT(ipv6, hop_limits, 7);
ITEM_AT(ipv6, src_addr, 8);
ITEM_AT(ipv6, dst_addr, 24);
ITEM_AT(tcp, src_port, 0);
ITEM_AT(tcp, dst_port, 2);
ITEM_AT(tcp, tcp_flags, 13);
ITEM_AT(udp, src_port, 0);
ITEM_AT(udp, dst_port, 2);

const void *hnlb_item_default_mask(uint32_t type)
{
	switch (type) {
	case RTE_FLOW_ITEM_TYPE_ETH:
		return &rte_flow_item_eth_mask;
	case RTE_FLOW_ITEM_TYPE_VLAN:
		return &rte_flow_item_vlan_mask;
	case RTE_FLOW_ITEM_TYPE_IPV4:
		return &rte_flow_item_ipv4_mask;
	case RTE_FLOW_ITEM_TYPE_IPV6:
		return &rte_flow_item_ipv6_mask;
	case RTE_FLOW_ITEM_TYPE_TCP:
		return &rte_flow_item_tcp_mask;
	case RTE_FLOW_ITEM_TYPE_UDP:
		return &rte_flow_item_udp_mask;
	default:
		return NULL;
	}
}

/* The configurations of SET_* are the new value in network byte order. */
#define ACTION_IS(action, size) \
	_Static_assert(sizeof(struct rte_flow_action_##action) == (size), #action)

ACTION_IS(set_ipv4, 4);
ACTION_IS(set_ipv6, 16);
ACTION_IS(set_tp, 2);
ACTION_IS(set_mac, 6);

void hnlb_modify_write(struct rte_flow_action_modify_field *to, const struct hnlb_modify *from)
{
	memset(to, 0, sizeof(*to));
	to->operation = (enum rte_flow_modify_op)from->operation;
	to->dst.field = (enum rte_flow_field_id)from->field;
	to->dst.level = from->level;
	to->dst.offset = from->offset;
	to->src.field = (enum rte_flow_field_id)from->src_field;
	memcpy(to->src.value, from->value, sizeof(from->value));
	to->width = from->width;
}

void hnlb_modify_read(struct hnlb_modify *to, const struct rte_flow_action_modify_field *from)
{
	to->operation = from->operation;
	to->field = from->dst.field;
	to->level = from->dst.level;
	to->offset = from->dst.offset;
	to->src_field = from->src.field;
	to->width = from->width;
	memcpy(to->value, from->src.value, sizeof(to->value));
}

void hnlb_modify_mask(struct rte_flow_action_modify_field *to)
{
	memset(to, 0xff, sizeof(*to));
	memset(to->src.value, 0, sizeof(to->src.value));
}

/* ---- tables of rules by index ------------------------------------------- */

#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
_Static_assert((int)HNLB_TABLE_HASH_LINEAR == (int)RTE_FLOW_TABLE_HASH_FUNC_LINEAR, "linear");
_Static_assert((int)HNLB_TABLE_HASH_CRC32 == (int)RTE_FLOW_TABLE_HASH_FUNC_CRC32, "crc32");
_Static_assert((int)HNLB_TABLE_HASH_CRC16 == (int)RTE_FLOW_TABLE_HASH_FUNC_CRC16, "crc16");
#endif

int hnlb_table_by_index(struct rte_flow_template_table_attr *attr, uint32_t hash)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	attr->insertion_type = RTE_FLOW_TABLE_INSERTION_TYPE_INDEX;
	attr->hash_func = (enum rte_flow_table_hash_func)hash;
	return 0;
#else
	(void)attr;
	(void)hash;
	return -ENOTSUP;
#endif
}

struct rte_flow *hnlb_create_by_index(uint16_t port, uint32_t queue,
				      const struct rte_flow_op_attr *op,
				      struct rte_flow_template_table *table, uint32_t index,
				      const struct rte_flow_action *actions, void *user,
				      struct rte_flow_error *error)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	return rte_flow_async_create_by_index(port, queue, op, table, index, actions, 0, user,
					      error);
#else
	(void)port, (void)queue, (void)op, (void)table, (void)index, (void)actions, (void)user;
	rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
			   "rules by index need DPDK 23.03");
	return NULL;
#endif
}

int hnlb_table_hash(uint16_t port, const struct rte_flow_template_table *table,
		    const struct rte_flow_item *pattern, uint32_t *hash,
		    struct rte_flow_error *error)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
	return rte_flow_calc_table_hash(port, table, pattern, 0, hash, error);
#else
	(void)port, (void)table, (void)pattern, (void)hash;
	return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
				  "the hash of a table needs DPDK 23.11");
#endif
}

/* ---- EAL and threads ---------------------------------------------------- */

int hnlb_errno(void)
{
	return rte_errno;
}

unsigned int hnlb_lcore_id(void)
{
	return rte_lcore_id();
}

uint64_t hnlb_rdtsc(void)
{
	return rte_rdtsc();
}

int hnlb_pin_to_core(unsigned int core)
{
	rte_cpuset_t set;

	if (core >= CPU_SETSIZE)
		return -EINVAL;
	CPU_ZERO(&set);
	CPU_SET(core, &set);
	/* First as the kernel sees it, whose errno is exact; then as EAL does,
	 * which also keeps the thread's NUMA node up to date.
	 */
	int ret = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (ret != 0)
		return -ret;
	return rte_thread_set_affinity(&set) == 0 ? 0 : -EINVAL;
}

size_t hnlb_allowed_cores(unsigned int *out, size_t cap)
{
	cpu_set_t set;
	size_t found = 0;

	if (pthread_getaffinity_np(pthread_self(), sizeof(set), &set) != 0)
		return 0;
	for (unsigned int core = 0; core < CPU_SETSIZE; core++) {
		if (!CPU_ISSET(core, &set))
			continue;
		if (found < cap)
			out[found] = core;
		found++;
	}
	return found;
}

/* ---- hash tables ---------------------------------------------------------- */

int hnlb_tel_add(struct rte_tel_data *to, const char *name, uint64_t value)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	return rte_tel_data_add_dict_uint(to, name, value);
#else
	return rte_tel_data_add_dict_u64(to, name, value);
#endif
}

rte_hash_function hnlb_hash_function(bool crc)
{
	return crc ? rte_hash_crc : rte_jhash;
}

/* ---- log ---------------------------------------------------------------- */

/* One stream for the life of the process: DPDK may write to it from any
 * thread at any time, so it is never closed or swapped.
 */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[4096];
static size_t log_used;
static int log_captured;

static ssize_t log_write(void *cookie, const char *text, size_t size)
{
	(void)cookie;
	pthread_mutex_lock(&log_lock);
	if (log_captured) {
		size_t room = sizeof(log_text) - log_used;
		size_t kept = size < room ? size : room;

		memcpy(log_text + log_used, text, kept);
		log_used += kept;
	} else {
		fwrite(text, 1, size, stderr);
	}
	pthread_mutex_unlock(&log_lock);
	return (ssize_t)size;
}

int hnlb_log_install(void)
{
	static const cookie_io_functions_t functions = { .write = log_write };
	FILE *stream = fopencookie(NULL, "w", functions);

	if (stream == NULL)
		return -ENOMEM;
	return rte_openlog_stream(stream);
}

void hnlb_log_capture(void)
{
	pthread_mutex_lock(&log_lock);
	log_used = 0;
	log_captured = 1;
	pthread_mutex_unlock(&log_lock);
}

size_t hnlb_log_release(char *out, size_t cap)
{
	pthread_mutex_lock(&log_lock);
	size_t size = log_used < cap ? log_used : cap;

	memcpy(out, log_text, size);
	log_used = 0;
	log_captured = 0;
	pthread_mutex_unlock(&log_lock);
	return size;
}

/* ---- mbufs -------------------------------------------------------------- */

struct rte_mbuf *hnlb_mbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int hnlb_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, n);
}

void hnlb_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

int hnlb_mbuf_linearize(struct rte_mbuf *mbuf)
{
	return rte_pktmbuf_linearize(mbuf);
}

/* ---- ports -------------------------------------------------------------- */

uint16_t hnlb_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_rx_burst(port, queue, mbufs, n);
}

int hnlb_rx_queue_count(uint16_t port, uint16_t queue)
{
	return rte_eth_rx_queue_count(port, queue);
}

uint16_t hnlb_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, mbufs, n);
}

uint64_t hnlb_rss_five_tuple(void)
{
	return RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
}

uint64_t hnlb_rss_ports_v4(void)
{
	return RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV4_UDP;
}

int hnlb_link(uint16_t port, int *up, uint32_t *speed)
{
	struct rte_eth_link link;

	memset(&link, 0, sizeof(link));
	int ret = rte_eth_link_get_nowait(port, &link);

	*up = link.link_status == RTE_ETH_LINK_UP;
	*speed = link.link_speed;
	return ret;
}

/* The largest table of a driver: 2048 entries (ice). */
#define RETA_GROUPS (2048 / RTE_ETH_RETA_GROUP_SIZE)

int hnlb_reta_update(uint16_t port, uint16_t size, const uint16_t *entries,
		     const uint16_t *queues, uint16_t n)
{
	struct rte_eth_rss_reta_entry64 table[RETA_GROUPS];

	if (size > RETA_GROUPS * RTE_ETH_RETA_GROUP_SIZE)
		return -EINVAL;
	memset(table, 0, sizeof(table));
	for (uint16_t i = 0; i < n; i++) {
		struct rte_eth_rss_reta_entry64 *group;

		if (entries[i] >= size)
			return -EINVAL;
		group = &table[entries[i] / RTE_ETH_RETA_GROUP_SIZE];
		group->mask |= UINT64_C(1) << (entries[i] % RTE_ETH_RETA_GROUP_SIZE);
		group->reta[entries[i] % RTE_ETH_RETA_GROUP_SIZE] = queues[i];
	}
	return rte_eth_dev_rss_reta_update(port, table, size);
}

int hnlb_reta_query(uint16_t port, uint16_t size, uint16_t *queues)
{
	struct rte_eth_rss_reta_entry64 table[RETA_GROUPS];
	int ret;

	if (size > RETA_GROUPS * RTE_ETH_RETA_GROUP_SIZE)
		return -EINVAL;
	memset(table, 0, sizeof(table));
	for (uint16_t i = 0; i < size; i++)
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
	ret = rte_eth_dev_rss_reta_query(port, table, size);
	for (uint16_t i = 0; i < size; i++)
		queues[i] = table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	return ret;
}

/* The longest key of a driver: 52 bytes (i40e, ice). */
#define RSS_KEY 64

int hnlb_rss_key(uint16_t port, uint8_t *key, uint16_t n, uint64_t *types)
{
	uint8_t whole[RSS_KEY] = {0};
	struct rte_eth_rss_conf conf = {.rss_key = whole, .rss_key_len = RSS_KEY};
	struct rte_eth_dev_info info;
	int ret = rte_eth_dev_info_get(port, &info);

	if (ret != 0)
		return ret;
	if (info.hash_key_size < n || info.hash_key_size > RSS_KEY)
		return -ENOTSUP;
	conf.rss_key_len = info.hash_key_size;
	ret = rte_eth_dev_rss_hash_conf_get(port, &conf);
	memcpy(key, whole, n);
	*types = conf.rss_hf;
	return ret;
}

unsigned int hnlb_iface_index(const char *name)
{
	return if_nametoindex(name);
}

int hnlb_iface_running(const char *name)
{
	struct ifreq request;
	int found = -1;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	memset(&request, 0, sizeof(request));
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (ioctl(fd, SIOCGIFFLAGS, &request) == 0)
		found = (request.ifr_flags & IFF_UP) && (request.ifr_flags & IFF_RUNNING);
	close(fd);
	return found;
}

/* ---- rings -------------------------------------------------------------- */

unsigned int hnlb_ring_enqueue(struct rte_ring *ring, void *const *objects, unsigned int n)
{
	return rte_ring_enqueue_burst(ring, objects, n, NULL);
}

unsigned int hnlb_ring_dequeue(struct rte_ring *ring, void **objects, unsigned int n)
{
	return rte_ring_dequeue_burst(ring, objects, n, NULL);
}

unsigned int hnlb_ring_count(const struct rte_ring *ring)
{
	return rte_ring_count(ring);
}

unsigned int hnlb_ring_capacity(const struct rte_ring *ring)
{
	return rte_ring_get_capacity(ring);
}

/* ---- crypto devices ------------------------------------------------------- */

/* Behind an operation and its symmetric part: the nonce. */
#define NONCE_OFFSET (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))

int hnlb_crypto_start(const char *device, uint32_t descriptors)
{
	struct rte_cryptodev_config config = { .socket_id = SOCKET_ID_ANY, .nb_queue_pairs = 1 };
	struct rte_cryptodev_qp_conf pair = { .nb_descriptors = descriptors };
	int id, code = rte_dev_probe(device);

	if (code < 0)
		return code;
	id = rte_cryptodev_get_dev_id(device);
	if (id < 0)
		return -ENODEV;
	code = rte_cryptodev_configure(id, &config);
	if (code == 0)
		code = rte_cryptodev_queue_pair_setup(id, 0, &pair, SOCKET_ID_ANY);
	if (code == 0)
		code = rte_cryptodev_start(id);
	if (code < 0) {
		hnlb_crypto_stop(id);
		return code;
	}
	return id;
}

void hnlb_crypto_stop(uint8_t device)
{
	struct rte_cryptodev_info info;

	memset(&info, 0, sizeof(info));
	rte_cryptodev_info_get(device, &info);
	rte_cryptodev_stop(device);
	rte_cryptodev_close(device);
	if (info.device != NULL)
		rte_dev_remove(info.device);
}

struct rte_mempool *hnlb_crypto_sessions(uint8_t device, const char *name, uint32_t n)
{
	uint32_t size = rte_cryptodev_sym_get_private_session_size(device);

	return rte_cryptodev_sym_session_pool_create(name, n, size, 0, 0, SOCKET_ID_ANY);
}

void *hnlb_crypto_session(uint8_t device, struct rte_mempool *sessions, enum hnlb_aead aead,
			  bool seal, const uint8_t *key, uint16_t key_len)
{
	struct rte_crypto_sym_xform xform = {
		.type = RTE_CRYPTO_SYM_XFORM_AEAD,
		.aead = {
			.op = seal ? RTE_CRYPTO_AEAD_OP_ENCRYPT : RTE_CRYPTO_AEAD_OP_DECRYPT,
			.algo = aead == HNLB_AEAD_AES_GCM ? RTE_CRYPTO_AEAD_AES_GCM
							  : RTE_CRYPTO_AEAD_CHACHA20_POLY1305,
			.key = { .data = key, .length = key_len },
			.iv = { .offset = NONCE_OFFSET, .length = HNLB_RECORD_NONCE },
			.digest_length = HNLB_RECORD_TAG,
			.aad_length = HNLB_RECORD_HEADER,
		},
	};

	return rte_cryptodev_sym_session_create(device, &xform, sessions);
}

struct rte_mempool *hnlb_crypto_ops(const char *name, uint32_t n)
{
	return rte_crypto_op_pool_create(name, RTE_CRYPTO_OP_TYPE_SYMMETRIC, n, 0, 16,
					 SOCKET_ID_ANY);
}

bool hnlb_crypto_ops_take(struct rte_mempool *pool, struct rte_crypto_op **ops, uint16_t n)
{
	return rte_crypto_op_bulk_alloc(pool, RTE_CRYPTO_OP_TYPE_SYMMETRIC, ops, n) == n;
}

void hnlb_crypto_op_free(struct rte_crypto_op *op)
{
	rte_crypto_op_free(op);
}

void hnlb_crypto_op_record(struct rte_crypto_op *op, void *session, struct rte_mbuf *record,
			   const uint8_t *nonce)
{
	uint32_t text = record->data_len - HNLB_RECORD_HEADER - HNLB_RECORD_TAG;
	uint32_t tag = HNLB_RECORD_HEADER + text;
	struct rte_crypto_sym_op *sym = op->sym;

	rte_crypto_op_attach_sym_session(op, session);
	op->status = RTE_CRYPTO_OP_STATUS_NOT_PROCESSED;
	sym->m_src = record;
	sym->m_dst = NULL;
	sym->aead.data.offset = HNLB_RECORD_HEADER;
	sym->aead.data.length = text;
	sym->aead.digest.data = rte_pktmbuf_mtod_offset(record, uint8_t *, tag);
	sym->aead.digest.phys_addr = rte_pktmbuf_iova_offset(record, tag);
	sym->aead.aad.data = rte_pktmbuf_mtod(record, uint8_t *);
	sym->aead.aad.phys_addr = rte_pktmbuf_iova(record);
	memcpy(rte_crypto_op_ctod_offset(op, uint8_t *, NONCE_OFFSET), nonce, HNLB_RECORD_NONCE);
}

bool hnlb_crypto_op_done(const struct rte_crypto_op *op)
{
	return op->status == RTE_CRYPTO_OP_STATUS_SUCCESS;
}

uint16_t hnlb_crypto_enqueue(uint8_t device, struct rte_crypto_op **ops, uint16_t n)
{
	return rte_cryptodev_enqueue_burst(device, 0, ops, n);
}

uint16_t hnlb_crypto_dequeue(uint8_t device, struct rte_crypto_op **ops, uint16_t n)
{
	return rte_cryptodev_dequeue_burst(device, 0, ops, n);
}
