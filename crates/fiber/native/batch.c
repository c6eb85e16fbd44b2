/* Batch work under the core allocator: CURTAIL_BOARD_FD (a descriptor) in the environment of an
 * instrumented program, as `curtail batch` sets it, makes its threads follow the orders for the
 * core that they are on: the kthread that is to have the core is woken there, and the kernel takes
 * the core from the batch thread, which ranks last. The daemon made no system call, and no other
 * core waited for an interrupt.
 *
 * The board is the daemon's memory, mapped read-only here; its layout is crates/shm's, and a test
 * compares the two. A board that lies has a thread woken for nothing, at worst: its size can't change,
 * and what is read from it is checked against the size that was mapped.
 *
 * `look` runs on every thread, from its safepoints, one heartbeat after the other; a thread that has
 * no hook yet gets this one at its first slow path (`curtail_batch_adopt`). What all threads share is
 * written before the first of them, but for `followed`.
 */
#define _GNU_SOURCE
#include "curtail_safepoint.h"
#include "state.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
  VERSION = 2,
  HEADER_BYTES = 128,
  LINE_BYTES = 64,
  /* In the header. */
  VERSION_AT = 8,
  HEADER_BYTES_AT = 12,
  LINE_BYTES_AT = 16,
  CORES_AT = 20,
  SLOTS_AT = 24,
  /* In a core's line, which begins with the order. */
  CPU_AT = 8,
  HOLDER_AT = 12,
  MOST_CORES = 1024,
  MOST_SLOTS = 1 << 16,
  /* The kernel's numbers of cores, as RDTSCP gives them. */
  CPUS = 4096,
  HEARTBEAT_NS = 3000,
  AT_ONCE_NS = 1500,
  STOLEN_NS = 30000,
  NAP_NS = 150000,
  CALIBRATION_NS = 100000,
  FUTEX_WAKE_SHARED = 1,
};

/* "CURTBORD". */
#define MAGIC 0x44524f4254525543u

const uint32_t curtail_board_layout[] = {VERSION,         HEADER_BYTES,  LINE_BYTES, VERSION_AT,
                                         HEADER_BYTES_AT, LINE_BYTES_AT, CORES_AT,   SLOTS_AT,
                                         CPU_AT,          HOLDER_AT};

static const unsigned char *board;
static uint32_t cores, slots;
static uint64_t heartbeat;
/* A call that took less time did not let the heir run: it looks for work for 2 us at least. */
static uint64_t at_once;
/* The line of a core's number, plus one; 0: it is not the daemon's. */
static uint16_t line_of[CPUS];
/* The last order of each line that was followed. */
static uint64_t followed[MOST_CORES];
/* A thread that runs for longer on a core which a kthread has was given that by the kernel. */
static uint64_t stolen;
/* A nap that was over sooner left the core to no other thread. */
static uint64_t nap_alone;
/* Of each line: since when its batch thread has run beside a holder, when it looked last, and the order
 * since which its holder is known not to run. One thread runs on a core at a time, and a value that is
 * another's costs a nap at worst. */
static struct {
  uint64_t since, looked, absent;
} beside[MOST_CORES];

static inline uint32_t word_at(const unsigned char *place) {
  return __atomic_load_n((const uint32_t *)(const void *)place, __ATOMIC_ACQUIRE);
}

static inline const uint64_t *order_of(uint32_t line) {
  return (const uint64_t *)(const void *)(board + HEADER_BYTES + (size_t)line * LINE_BYTES);
}

/* Not by the C library: no other register may change, nor errno. */
static inline long system_call(long number, const void *first, long second, long third) {
  long result;
  register long timeout __asm__("r10") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(first), "S"(second), "d"(third), "r"(timeout)
                   : "rcx", "r11", "memory");
  return result;
}

static void nap(void) {
  const struct timespec shortest = {0, 1};
  system_call(SYS_nanosleep, &shortest, 0, 0);
}

/* Wakes the heir, which sleeps on the first word of its slot's line. The kernel mostly gives it the
 * core before the call is over, which then takes as long as the heir runs. About once in 20,000 it
 * does not, and would have the heir wait for its next tick: so a thread that is back at once naps,
 * which leaves the core to the heir. (It lasts for some 50 us, the kernel's slack.) */
static void follow(uint32_t line, uint64_t order) {
  uint32_t heir = (uint32_t)order - 1;
  uint64_t before = __atomic_exchange_n(&followed[line], order, __ATOMIC_RELAXED);
  if (before == order || heir >= slots)
    return;
  const unsigned char *word = board + HEADER_BYTES + ((size_t)cores + heir) * LINE_BYTES;
  uint64_t begun = tsc();
  if (system_call(SYS_futex, word, FUTEX_WAKE_SHARED, 1) == 1 && tsc() - begun < at_once)
    nap();
}

/* A kthread has the core, and the calling thread runs on it. For some microseconds that is so after each
 * park, until the daemon has seen it. For longer, the kernel has taken the core from a kthread that has
 * work: at a tick, since a runnable thread of the lowest rank has a claim to three thousandths of it, and
 * then it has all of it until the next tick (4 ms at 250 Hz). So it naps. A holder that waits in the
 * kernel leaves the core to batch work: that a nap was over at once tells of it. */
static void make_room(uint32_t line, uint64_t now, uint64_t order) {
  uint64_t looked = __atomic_exchange_n(&beside[line].looked, now, __ATOMIC_RELAXED);
  uint64_t since = __atomic_load_n(&beside[line].since, __ATOMIC_RELAXED);
  if (now - looked > 2 * heartbeat) {
    __atomic_store_n(&beside[line].since, now, __ATOMIC_RELAXED);
    return;
  }
  if (now - since < stolen || __atomic_load_n(&beside[line].absent, __ATOMIC_RELAXED) == order)
    return;
  nap();
  uint64_t end = tsc();
  if (end - now < nap_alone)
    __atomic_store_n(&beside[line].absent, order, __ATOMIC_RELAXED);
  __atomic_store_n(&beside[line].since, end, __ATOMIC_RELAXED);
  __atomic_store_n(&beside[line].looked, end, __ATOMIC_RELAXED);
}

static void look(struct curtail_safepoint_block *b) {
  uint32_t low, high, cpu;
  __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(cpu));
  uint64_t now = (uint64_t)high << 32 | low;
  __atomic_store_n(&b->poll, 0, __ATOMIC_RELAXED);
  curtail_safepoint_arm(b, CURTAIL_CLOCK, now, now + heartbeat);
  uint32_t line = line_of[cpu & (CPUS - 1)];
  if (line == 0)
    return;
  line -= 1;
  uint64_t order = __atomic_load_n(order_of(line), __ATOMIC_ACQUIRE);
  if (__builtin_expect(order != __atomic_load_n(&followed[line], __ATOMIC_RELAXED), 0))
    follow(line, order);
  else if (word_at((const unsigned char *)order_of(line) + HOLDER_AT) != 0)
    make_room(line, now, order);
  else
    __atomic_store_n(&beside[line].looked, 0, __ATOMIC_RELAXED);
}

static void adopt(struct curtail_safepoint_block *b) {
  b->yield = look;
  look(b);
}

static uint64_t monotonic_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t heartbeat_cycles(void) {
  uint64_t begin_ns = monotonic_ns(), begin = tsc(), ns;
  do
    ns = monotonic_ns() - begin_ns;
  while (ns < CALIBRATION_NS);
  return (tsc() - begin) * HEARTBEAT_NS / ns;
}

static int has_rdtscp(void) {
  uint32_t eax = 0x80000001, ebx, ecx = 0, edx;
  __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  (void)ebx;
  return edx >> 27 & 1;
}

/* Whether the descriptor is a board: then it is mapped. */
static int map_board(int fd) {
  struct stat about;
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &about) != 0)
    return 0;
  size_t size = (size_t)about.st_size;
  if (about.st_size < HEADER_BYTES ||
      size > HEADER_BYTES + ((size_t)MOST_CORES + MOST_SLOTS) * LINE_BYTES + 4096)
    return 0;
  void *place = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
  if (place == MAP_FAILED)
    return 0;
  const unsigned char *found = place;
  uint64_t magic = __atomic_load_n((const uint64_t *)place, __ATOMIC_ACQUIRE);
  /* Read once: the numbers that are checked are those that are used. */
  cores = word_at(found + CORES_AT);
  slots = word_at(found + SLOTS_AT);
  if (magic == MAGIC && word_at(found + VERSION_AT) == VERSION &&
      word_at(found + HEADER_BYTES_AT) == HEADER_BYTES &&
      word_at(found + LINE_BYTES_AT) == LINE_BYTES && cores - 1 < MOST_CORES &&
      slots - 1 < MOST_SLOTS && HEADER_BYTES + ((size_t)cores + slots) * LINE_BYTES <= size) {
    board = found;
    return 1;
  }
  munmap(place, size);
  return 0;
}

/* Runs before main in every program that the driver links (it roots the symbol); without the variable
 * it does nothing, and where that names no board neither: the kernel takes the core then. */
__attribute__((constructor)) void curtail_batch_start(void) {
  const char *text = getenv("CURTAIL_BOARD_FD"), *timing = getenv("CURTAIL_TIMING");
  if (text == NULL || *text == 0 || (timing != NULL && *timing != 0))
    return;
  char *end;
  long fd = strtol(text, &end, 10);
  if (*end != 0 || fd < 0 || fd > INT32_MAX || curtail_safepoint_kind() != 2 || !has_rdtscp() ||
      !map_board((int)fd))
    return;
  heartbeat = heartbeat_cycles();
  at_once = heartbeat * AT_ONCE_NS / HEARTBEAT_NS;
  stolen = heartbeat * STOLEN_NS / HEARTBEAT_NS;
  nap_alone = heartbeat * NAP_NS / HEARTBEAT_NS;
  for (uint32_t line = 0; line < cores; line++) {
    uint32_t cpu = word_at((const unsigned char *)order_of(line) + CPU_AT);
    if (cpu < CPUS)
      line_of[cpu] = (uint16_t)(line + 1);
    /* An order from before is none for this program. */
    followed[line] = __atomic_load_n(order_of(line), __ATOMIC_RELAXED);
  }
  curtail_quiet_hook = look;
  __atomic_store_n(&curtail_batch_adopt, adopt, __ATOMIC_RELEASE);
  struct curtail_safepoint_block *b = curtail_safepoint_self();
  if (b->yield == NULL)
    adopt(b);
}
