/* The driver of DPDK, as far as it has to be C: what is quick in DPDK are inline functions.
 *
 * `src/packet/dpdk/port.rs` declares the same functions and says who calls them from which thread.
 * Nothing here keeps a frame: what is received is given back by the caller, what is lent is sent or
 * given back. A call that fails says by `step` what it was doing. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_version.h>

/* Frames that a caller may have beside those in a device's rings. */
#define BESIDE 128
/* Ethernet's header with two tags, and its checksum. */
#define AROUND (RTE_ETHER_HDR_LEN + 8 + RTE_ETHER_CRC_LEN)

struct settings {
  const char *device;    /* `NAME` */
  const char *arguments; /* `NAME,args` */
  uint16_t queues;
  uint16_t frames; /* of a queue for each way */
  uint16_t mtu;
};

struct facts {
  uint8_t hardware[6];
  uint16_t receive_ring; /* frames that a queue's rings hold */
  uint16_t send_ring;
  uint16_t most_queues;
  uint16_t least_mtu;
  uint16_t most_mtu;
  uint16_t spreads; /* 1: flows go to all queues; 0: perhaps to one */
};

struct way {
  struct rte_mempool *receive;
  struct rte_mempool *send;
};

struct port {
  uint16_t id;
  uint16_t queues;
  bool is_ours;
  struct rte_device *device;
  struct way ways[];
};

struct frame {
  uint8_t *data;
  uint32_t bytes;
  struct rte_mbuf *buffer;
};

struct counts {
  uint64_t missed;
  uint64_t errors;
  uint64_t no_frame;
  uint64_t unsent;
};

const char *curtail_dpdk_version(void) { return rte_version(); }

const char *curtail_dpdk_reason(int error) { return rte_strerror(error < 0 ? -error : error); }

int curtail_dpdk_start(int count, char **words) {
  return rte_eal_init(count, words) < 0 ? -(rte_errno ? rte_errno : EINVAL) : 0;
}

/* The first port of a device. */
static bool find(const char *device, uint16_t *found, struct rte_eth_dev_info *info) {
  uint16_t id;

  for (id = rte_eth_find_next(0); id < RTE_MAX_ETHPORTS; id = rte_eth_find_next(id + 1)) {
    if (rte_eth_dev_info_get(id, info) != 0 || info->device == NULL)
      continue;
    if (strcmp(rte_dev_name(info->device), device) == 0) {
      *found = id;
      return true;
    }
  }
  return false;
}

static struct rte_mempool *pool(uint16_t id, unsigned queue, const char *way, unsigned frames,
                                unsigned room) {
  char name[RTE_MEMPOOL_NAMESIZE];

  snprintf(name, sizeof(name), "curtail-%u-%u-%s", id, queue, way);
  /* Threads that are not DPDK's share it, and the kernel may stop any: with relaxed tails none
	 * waits for a particular other one. */
  return rte_pktmbuf_pool_create_by_ops(name, frames, 0, 0, room, rte_eth_dev_socket_id(id),
                                        "ring_mt_rts");
}

/* What the device can tell apart, to spread flows over its queues. */
static uint64_t flows_of(const struct rte_eth_dev_info *info) {
  return info->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
}

static int configure(struct port *port, const struct settings *wanted,
                     const struct rte_eth_dev_info *info, uint16_t *rings, const char **step) {
  struct rte_eth_conf conf = {.rxmode = {.mtu = wanted->mtu}};
  uint64_t flows = flows_of(info);
  int error;

  if (port->queues > 1 && flows != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = flows;
  }
  /* Each queue sends from a pool of its own. */
  conf.txmode.offloads = info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
  *step = "configure the port";
  error = rte_eth_dev_configure(port->id, port->queues, port->queues, &conf);
  if (error != 0)
    return error;
  rings[0] = rings[1] = wanted->frames;
  *step = "choose the length of its rings";
  return rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &rings[0], &rings[1]);
}

static int make_queues(struct port *port, const struct settings *wanted,
                       const struct rte_eth_dev_info *info, const uint16_t *rings,
                       const char **step) {
  /* NICs count the room of a buffer in kilobytes. */
  unsigned room = RTE_PKTMBUF_HEADROOM + RTE_ALIGN_CEIL(wanted->mtu + AROUND, 1024);
  unsigned socket = rte_eth_dev_socket_id(port->id);
  int error;

  for (uint16_t queue = 0; queue < port->queues; queue++) {
    struct way *way = &port->ways[queue];
    struct rte_eth_txconf sending = info->default_txconf;

    *step = "get memory for frames";
    way->receive = pool(port->id, queue, "in", rings[0] + BESIDE, room);
    way->send = pool(port->id, queue, "out", rings[1] + BESIDE, room);
    if (way->receive == NULL || way->send == NULL)
      return -(rte_errno ? rte_errno : ENOMEM);
    *step = "make a queue that receives";
    error = rte_eth_rx_queue_setup(port->id, queue, rings[0], socket, NULL, way->receive);
    if (error != 0)
      return error;
    *step = "make a queue that sends";
    sending.offloads = info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
    error = rte_eth_tx_queue_setup(port->id, queue, rings[1], socket, &sending);
    if (error != 0)
      return error;
  }
  *step = "start the port";
  return rte_eth_dev_start(port->id);
}

/* Ends what was begun. Threads that received or sent have done so for the last time. */
void curtail_dpdk_close(struct port *port) {
  if (port->is_ours) {
    (void)rte_eth_dev_stop(port->id);
    (void)rte_eth_dev_close(port->id);
    (void)rte_dev_remove(port->device);
  }
  for (uint16_t queue = 0; queue < port->queues; queue++) {
    rte_mempool_free(port->ways[queue].receive);
    rte_mempool_free(port->ways[queue].send);
  }
  free(port);
}

static int begin(struct port *port, const struct settings *wanted, struct facts *facts,
                 const char **step) {
  struct rte_eth_dev_owner owner = {.name = "curtail"};
  struct rte_ether_addr address;
  struct rte_eth_dev_info info;
  uint16_t rings[2];
  int error;

  *step = "find the device";
  if (!find(wanted->device, &port->id, &info)) {
    error = rte_dev_probe(wanted->arguments);
    if (error != 0 && error != -EEXIST)
      return error;
    if (!find(wanted->device, &port->id, &info))
      return -ENODEV;
  }
  port->device = info.device;
  *step = "take the port";
  error = rte_eth_dev_owner_new(&owner.id);
  if (error == 0)
    error = rte_eth_dev_owner_set(port->id, &owner);
  if (error != 0)
    return error == -EPERM ? -EBUSY : error;
  port->is_ours = true;
  facts->most_queues = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
  /* Of packet sockets the kernel does it. */
  facts->spreads = flows_of(&info) != 0 || strcmp(info.driver_name, "net_af_packet") == 0;
  facts->least_mtu = info.min_mtu;
  facts->most_mtu = info.max_mtu;
  if (port->queues > facts->most_queues || wanted->mtu < info.min_mtu || wanted->mtu > info.max_mtu)
    return -ERANGE;
  error = configure(port, wanted, &info, rings, step);
  if (error == 0)
    error = make_queues(port, wanted, &info, rings, step);
  if (error != 0)
    return error;
  /* For IPv6's questions; not every device can, or has to. */
  (void)rte_eth_allmulticast_enable(port->id);
  *step = "read the port's Ethernet address";
  error = rte_eth_macaddr_get(port->id, &address);
  memcpy(facts->hardware, address.addr_bytes, sizeof(facts->hardware));
  facts->receive_ring = rings[0];
  facts->send_ring = rings[1];
  return error;
}

int curtail_dpdk_open(const struct settings *wanted, struct facts *facts, struct port **opened,
                      const char **step) {
  struct port *port = calloc(1, sizeof(*port) + wanted->queues * sizeof(struct way));
  int error;

  *step = "get memory";
  if (port == NULL)
    return -ENOMEM;
  port->queues = wanted->queues;
  error = begin(port, wanted, facts, step);
  if (error == 0)
    *opened = port;
  else
    curtail_dpdk_close(port);
  return error;
}

/* By the thread that has the queue. The frames are the caller's, to be given back. */
uint16_t curtail_dpdk_receive(struct port *port, uint16_t queue, struct frame *frames,
                              uint16_t most) {
  struct rte_mbuf *buffers[64];
  uint16_t count = rte_eth_rx_burst(port->id, queue, buffers, RTE_MIN(most, 64));

  for (uint16_t at = 0; at < count; at++) {
    struct rte_mbuf *buffer = buffers[at];
    bool is_whole =
        buffer->nb_segs == 1 && (uint32_t)buffer->data_off + buffer->data_len <= buffer->buf_len;

    frames[at].buffer = buffer;
    frames[at].data = rte_pktmbuf_mtod(buffer, uint8_t *);
    /* A frame in pieces is longer than the link's. */
    frames[at].bytes = is_whole ? buffer->data_len : 0;
  }
  return count;
}

void curtail_dpdk_give_back(struct rte_mbuf *buffer) { rte_pktmbuf_free(buffer); }

/* A frame to write into, to be sent or given back. By any thread. */
bool curtail_dpdk_lend(struct port *port, uint16_t queue, struct frame *frame) {
  struct rte_mbuf *buffer = rte_pktmbuf_alloc(port->ways[queue].send);

  if (buffer == NULL)
    return false;
  frame->buffer = buffer;
  frame->data = rte_pktmbuf_mtod(buffer, uint8_t *);
  frame->bytes = rte_pktmbuf_tailroom(buffer);
  return true;
}

/* By one thread at a time for each queue. False: there was no room, and the frame is free again. */
bool curtail_dpdk_send(struct port *port, uint16_t queue, struct rte_mbuf *buffer, uint32_t bytes) {
  buffer->data_len = bytes;
  buffer->pkt_len = bytes;
  if (rte_eth_tx_burst(port->id, queue, &buffer, 1) == 1)
    return true;
  rte_pktmbuf_free(buffer);
  return false;
}

/* Frames of a queue: all, and those that are free. */
void curtail_dpdk_frames(struct port *port, uint16_t queue, uint32_t *all, uint32_t *available) {
  struct way *way = &port->ways[queue];

  *all = way->receive->size + way->send->size;
  *available = rte_mempool_avail_count(way->receive) + rte_mempool_avail_count(way->send);
}

void curtail_dpdk_counts(struct port *port, struct counts *counts) {
  struct rte_eth_stats found;

  if (rte_eth_stats_get(port->id, &found) != 0)
    return;
  counts->missed = found.imissed;
  counts->errors = found.ierrors;
  counts->no_frame = found.rx_nombuf;
  counts->unsent = found.oerrors;
}
