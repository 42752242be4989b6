/* The part of libndpi that hnlb-ndpi calls, without libndpi's types. */
#include <pthread.h>
#include <stdlib.h>

#include <ndpi_api.h>

/* A flow gets so many packets at most; then libndpi guesses (as its own ndpiReader). */
#define MOST_PACKETS 32

struct hnlb_flow {
	struct ndpi_flow_struct *flow;
	uint16_t protocol;
	uint16_t packets;
	uint8_t done;
};

static void *new_module(void)
{
	struct ndpi_detection_module_struct *module = ndpi_init_detection_module(ndpi_no_prefs);
	if (module == NULL)
		return NULL;
	NDPI_PROTOCOL_BITMASK all;
	NDPI_BITMASK_SET_ALL(all);
	ndpi_set_protocol_detection_bitmask2(module, &all);
	ndpi_finalize_initialization(module);
	return module;
}

/* One at a time: libndpi sets up libgcrypt with its first module, and libgcrypt aborts the
 * process if two threads do that at once. */
void *hnlb_ndpi_new(void)
{
	static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&creating);
	void *module = new_module();
	pthread_mutex_unlock(&creating);
	return module;
}

void hnlb_ndpi_free(void *module)
{
	ndpi_exit_detection_module(module);
}

void *hnlb_ndpi_flow_new(void)
{
	struct hnlb_flow *own = calloc(1, sizeof(*own));
	if (own == NULL)
		return NULL;
	size_t size = ndpi_detection_get_sizeof_ndpi_flow_struct();
	own->flow = ndpi_flow_malloc(size);
	if (own->flow == NULL) {
		free(own);
		return NULL;
	}
	memset(own->flow, 0, size);
	return own;
}

void hnlb_ndpi_flow_free(void *flow)
{
	struct hnlb_flow *own = flow;
	if (own->flow != NULL)
		ndpi_free_flow(own->flow);
	free(own);
}

static uint16_t best(ndpi_protocol found)
{
	return found.app_protocol != NDPI_PROTOCOL_UNKNOWN ? found.app_protocol : found.master_protocol;
}

/* Looks at an IP packet of a flow. Returns 1 with the packet that decides. */
int hnlb_ndpi_packet(void *module, void *flow, const uint8_t *packet, uint16_t length,
		     uint64_t now_ms, uint16_t *protocol)
{
	struct hnlb_flow *own = flow;
	if (own->done)
		return 0;
	own->packets++;
	ndpi_protocol found =
		ndpi_detection_process_packet(module, own->flow, packet, length, now_ms);
	if (best(found) == NDPI_PROTOCOL_UNKNOWN && own->packets >= MOST_PACKETS) {
		uint8_t guessed;
		found = ndpi_detection_giveup(module, own->flow, 1, &guessed);
	} else if (best(found) == NDPI_PROTOCOL_UNKNOWN) {
		return 0;
	}
	own->protocol = best(found);
	own->done = 1;
	/* A flow that is known needs no more than its verdict. */
	ndpi_free_flow(own->flow);
	own->flow = NULL;
	*protocol = own->protocol;
	return 1;
}

const char *hnlb_ndpi_name(void *module, uint16_t protocol)
{
	return ndpi_get_proto_name(module, protocol);
}
