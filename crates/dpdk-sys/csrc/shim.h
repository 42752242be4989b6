/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What bindgen can't bind: DPDK's static inline functions, and layouts whose
 * field names changed between 22.11 and 24.11. The latter are given as byte
 * offsets, so that the Rust side is the same for every release.
 */
#ifndef HNLB_SHIM_H
#define HNLB_SHIM_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_crypto.h>
#include <rte_cryptodev.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_hash.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_telemetry.h>
#include <rte_version.h>

/* Byte offsets into struct rte_mbuf. */
enum hnlb_mbuf_layout {
	HNLB_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr),
	HNLB_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	HNLB_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs),
	HNLB_MBUF_PORT = offsetof(struct rte_mbuf, port),
	HNLB_MBUF_OL_FLAGS = offsetof(struct rte_mbuf, ol_flags),
	HNLB_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	HNLB_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	HNLB_MBUF_FDIR_HI = offsetof(struct rte_mbuf, hash.fdir.hi),
	HNLB_MBUF_FDIR_ID = offsetof(struct rte_mbuf, hash.fdir.id),
	HNLB_MBUF_RSS = offsetof(struct rte_mbuf, hash.rss),
	HNLB_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len),
};

/* Flags of struct rte_mbuf: a rule matched; the rule's mark is in hash.fdir.hi;
 * the RSS hash is there; what the NIC found of the IPv4 header checksum, and that
 * it is right.
 */
static const uint64_t HNLB_FDIR_FLAG = RTE_MBUF_F_RX_FDIR;
static const uint64_t HNLB_FDIR_ID_FLAG = RTE_MBUF_F_RX_FDIR_ID;
static const uint64_t HNLB_RSS_FLAG = RTE_MBUF_F_RX_RSS_HASH;
static const uint64_t HNLB_IP_CKSUM_MASK = RTE_MBUF_F_RX_IP_CKSUM_MASK;
static const uint64_t HNLB_IP_CKSUM_GOOD = RTE_MBUF_F_RX_IP_CKSUM_GOOD;

/* A port can verify IPv4 header checksums. */
static const uint64_t HNLB_RX_OFFLOAD_IPV4_CKSUM = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
/* A port can tell the RSS hash of received packets. */
static const uint64_t HNLB_RX_OFFLOAD_RSS_HASH = RTE_ETH_RX_OFFLOAD_RSS_HASH;

/* Sizes of the specs of pattern items. */
enum hnlb_item_size {
	HNLB_ITEM_ETH_SIZE = sizeof(struct rte_flow_item_eth),
	HNLB_ITEM_VLAN_SIZE = sizeof(struct rte_flow_item_vlan),
	HNLB_ITEM_IPV4_SIZE = sizeof(struct rte_flow_item_ipv4),
	HNLB_ITEM_IPV6_SIZE = sizeof(struct rte_flow_item_ipv6),
	HNLB_ITEM_TCP_SIZE = sizeof(struct rte_flow_item_tcp),
	HNLB_ITEM_UDP_SIZE = sizeof(struct rte_flow_item_udp),
};

/* A MODIFY_FIELD: source is an immediate value, or what field src_field says.
 * Where its members lie changed in 23.11.
 */
struct hnlb_modify {
	uint32_t operation;
	uint32_t field;
	uint32_t level;
	uint32_t offset;
	uint32_t src_field;
	uint32_t width;
	uint8_t value[16];
};

void hnlb_modify_write(struct rte_flow_action_modify_field *to, const struct hnlb_modify *from);
void hnlb_modify_read(struct hnlb_modify *to, const struct rte_flow_action_modify_field *from);
/* The mask of an actions template: all but the value is the template's. */
void hnlb_modify_mask(struct rte_flow_action_modify_field *to);

/* EAL and threads. */
int hnlb_errno(void);
unsigned int hnlb_lcore_id(void);
uint64_t hnlb_rdtsc(void);
/* 0 or a negative errno. */
int hnlb_pin_to_core(unsigned int core);
/* Writes up to cap processors that the calling thread may use; how many there are. */
size_t hnlb_allowed_cores(unsigned int *out, size_t cap);

/* The log: to stderr, or into a buffer while captured. */
int hnlb_log_install(void);
void hnlb_log_capture(void);
/* Ends the capture; bytes written to out. */
size_t hnlb_log_release(char *out, size_t cap);

/* A number in a table of the telemetry socket; the function was renamed in 23.03. */
int hnlb_tel_add(struct rte_tel_data *to, const char *name, uint64_t value);

/* rte_hash_crc, or rte_jhash. */
rte_hash_function hnlb_hash_function(bool crc);

/* Mbufs. */
struct rte_mbuf *hnlb_mbuf_alloc(struct rte_mempool *pool);
int hnlb_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n);
void hnlb_mbuf_free(struct rte_mbuf *mbuf);
int hnlb_mbuf_linearize(struct rte_mbuf *mbuf);

/* Ports. */
uint16_t hnlb_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
/* Packets in a receive queue, or a negative errno. */
int hnlb_rx_queue_count(uint16_t port, uint16_t queue);
uint16_t hnlb_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
/* RSS on addresses and ports of TCP and UDP. */
uint64_t hnlb_rss_five_tuple(void);
/* The part of it for TCP and UDP ports over IPv4. */
uint64_t hnlb_rss_ports_v4(void);
/* 0 or a negative errno; speed in Mbit/s. */
int hnlb_link(uint16_t port, int *up, uint32_t *speed);
/* Entry entries[i] of the redirection table of `size` entries to queues[i], for each i
 * below n; 0 or a negative errno.
 */
int hnlb_reta_update(uint16_t port, uint16_t size, const uint16_t *entries,
		     const uint16_t *queues, uint16_t n);
/* The queue of each entry of the redirection table of `size` entries; 0 or a negative errno. */
int hnlb_reta_query(uint16_t port, uint16_t size, uint16_t *queues);
/* The first n bytes of the RSS key; the return value is negative if there is none. */
int hnlb_rss_key(uint16_t port, uint8_t *key, uint16_t n, uint64_t *types);
/* A kernel interface's index, 0 if there is none. */
unsigned int hnlb_iface_index(const char *name);
/* 1 running, 0 not, -1 unknown. */
int hnlb_iface_running(const char *name);

/* Rings. */
unsigned int hnlb_ring_enqueue(struct rte_ring *ring, void *const *objects, unsigned int n);
unsigned int hnlb_ring_dequeue(struct rte_ring *ring, void **objects, unsigned int n);

unsigned int hnlb_ring_count(const struct rte_ring *ring);
unsigned int hnlb_ring_capacity(const struct rte_ring *ring);

/* Tables of rules by index, which DPDK has since 23.03. Below that release, and
 * where the driver cannot do it, the answer is ENOTSUP. The hash is one of
 * enum hnlb_table_hash.
 */
enum hnlb_table_hash {
	HNLB_TABLE_HASH_LINEAR = 1,
	HNLB_TABLE_HASH_CRC32 = 2,
	HNLB_TABLE_HASH_CRC16 = 3,
};

/* Makes a table one of rules by index; 0 or a negative errno. */
int hnlb_table_by_index(struct rte_flow_template_table_attr *attr, uint32_t hash);
struct rte_flow *hnlb_create_by_index(uint16_t port, uint32_t queue,
				      const struct rte_flow_op_attr *op,
				      struct rte_flow_template_table *table, uint32_t index,
				      const struct rte_flow_action *actions, void *user,
				      struct rte_flow_error *error);
/* The hash of a packet with the pattern's values (since 23.11); 0 or a negative errno. */
int hnlb_table_hash(uint16_t port, const struct rte_flow_template_table *table,
		    const struct rte_flow_item *pattern, uint32_t *hash,
		    struct rte_flow_error *error);

/* Crypto devices. A record is one of TLS 1.3 (RFC 8446, 5.2): a header of
 * HNLB_RECORD_HEADER bytes, which is authenticated, the text, and a tag of
 * HNLB_RECORD_TAG bytes behind it; the nonce has HNLB_RECORD_NONCE bytes.
 */
enum hnlb_record_layout {
	HNLB_RECORD_HEADER = 5,
	HNLB_RECORD_TAG = 16,
	HNLB_RECORD_NONCE = 12,
};

enum hnlb_aead {
	HNLB_AEAD_AES_GCM = 1,
	HNLB_AEAD_CHACHA20_POLY1305 = 2,
};

/* Starts a device of one queue pair; its number or a negative errno. */
int hnlb_crypto_start(const char *device, uint32_t descriptors);
/* Stops the device and detaches it. */
void hnlb_crypto_stop(uint8_t device);
/* NULL, and the reason in rte_errno, if the device does not know the algorithm. */
void *hnlb_crypto_session(uint8_t device, struct rte_mempool *sessions, enum hnlb_aead aead,
			  bool seal, const uint8_t *key, uint16_t key_len);
struct rte_mempool *hnlb_crypto_sessions(uint8_t device, const char *name, uint32_t n);
struct rte_mempool *hnlb_crypto_ops(const char *name, uint32_t n);
/* Takes n operations from the pool; false: it has fewer, and none was taken. */
bool hnlb_crypto_ops_take(struct rte_mempool *pool, struct rte_crypto_op **ops, uint16_t n);
void hnlb_crypto_op_free(struct rte_crypto_op *op);
/* Tells the operation the record in the mbuf's first segment. */
void hnlb_crypto_op_record(struct rte_crypto_op *op, void *session, struct rte_mbuf *record,
			   const uint8_t *nonce);
/* Whether the operation ended well. */
bool hnlb_crypto_op_done(const struct rte_crypto_op *op);
uint16_t hnlb_crypto_enqueue(uint8_t device, struct rte_crypto_op **ops, uint16_t n);
uint16_t hnlb_crypto_dequeue(uint8_t device, struct rte_crypto_op **ops, uint16_t n);

/* The default mask of an item type that the shim knows, else NULL. */
const void *hnlb_item_default_mask(uint32_t type);

#endif
