/* The stand-alone timing mode: CURTAIL_TIMING=2us (500ns, 4000cycles, …) in the environment of an
 * instrumented program makes its main thread fire at that quantum, go on without yielding, and
 * record the intervals; at exit one JSON line goes to CURTAIL_TIMING_OUT, or stderr. Beside the
 * figures over all intervals it has `calm_mae` and `calm_p99`, over those of up to five quanta, and
 * `disturbed`, how many others there were.
 *
 * The main thread alone records (`record`, from its safepoints). The report runs at exit, possibly
 * on another thread, so what it reads is atomic (relaxed). In a program built with --safepoint=flag
 * nothing else writes the poll word, so a helper thread does (`strobe`).
 */
#include "curtail_safepoint.h"
#include "state.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  /* Log-linear: 128 steps to each power of two, exact below 256. */
  STEP_BITS = 7,
  BUCKETS = (64 - STEP_BITS + 1) << STEP_BITS,
  /* Longer intervals, in quanta, are the system's doing, or a library's. */
  DISTURBED = 5,
  /* A measurement of what safepoints cost includes this, too: so it is short. */
  CALIBRATION_NS = 250000,
};

/* The sum of all intervals is what lies between the first moment and the last. */
static struct {
  uint64_t quantum;
  uint64_t begin;
  uint64_t last;
  uint64_t error_sum;
  /* Of those longer than DISTURBED quanta. */
  uint64_t disturbed;
  uint64_t disturbed_error_sum;
  uint64_t max;
  uint64_t histogram[BUCKETS];
} __attribute__((aligned(64))) records;

static struct curtail_safepoint_block *main_block;
static uint32_t stopped, strobing;
static pid_t owner;
static char out_path[4096];
static uint64_t start_tsc, start_ns, first_hz;

static uint64_t monotonic_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Both clocks at one moment: of five readings the one that took least, so that an interruption
 * between the two does not count. */
static void both(uint64_t *cycles, uint64_t *ns) {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 5; i++) {
    uint64_t before = tsc(), middle = monotonic_ns(), after = tsc();
    if (after - before < least) {
      least = after - before;
      *cycles = before + least / 2;
      *ns = middle;
    }
  }
}

static uint64_t hz_since(uint64_t tsc0, uint64_t ns0) {
  uint64_t cycles, ns;
  both(&cycles, &ns);
  ns -= ns0;
  return (uint64_t)((unsigned __int128)(cycles - tsc0) * 1000000000u / (ns ? ns : 1));
}

/* Values below 2 << STEP_BITS have a bucket each; above, a power of two and the next STEP_BITS
 * bits. */
static inline unsigned bucket_of(uint64_t v) {
  if (v < (2u << STEP_BITS))
    return (unsigned)v;
  unsigned shift = 63 - (unsigned)__builtin_clzll(v) - STEP_BITS;
  return (shift << STEP_BITS) + (unsigned)(v >> shift);
}

/* The middle of a bucket. */
static uint64_t value_of(unsigned bucket) {
  if (bucket < (2u << STEP_BITS))
    return bucket;
  unsigned shift = (bucket >> STEP_BITS) - 1;
  uint64_t low = (uint64_t)(bucket - (shift << STEP_BITS)) << shift;
  return low + (((uint64_t)1 << shift) - 1) / 2;
}

static inline uint64_t get(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }

static inline void set(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }

static void record(struct curtail_safepoint_block *b) {
  /* A firing by the clock has just read it. */
  uint64_t now = b->refilled_at != 0 ? b->refilled_at : tsc(), interval = now - records.last;
  uint64_t quantum = records.quantum;
  uint64_t *cell = &records.histogram[bucket_of(interval)];
  set(cell, *cell + 1);
  uint64_t error = interval > quantum ? interval - quantum : quantum - interval;
  set(&records.error_sum, records.error_sum + error);
  if (__builtin_expect(interval > quantum * DISTURBED, 0)) {
    set(&records.disturbed, records.disturbed + 1);
    set(&records.disturbed_error_sum, records.disturbed_error_sum + error);
  }
  if (__builtin_expect(interval > records.max, 0))
    set(&records.max, interval);
  set(&records.last, now);
  __atomic_store_n(&b->poll, 0, __ATOMIC_RELAXED);
  curtail_safepoint_arm(b, b->mode, now, now + quantum);
}

/* The helper thread of flag builds: writes the main thread's poll word one quantum after each
 * firing. It has to spin, no timer of the system is that fine; it ends with the program. */
static void *strobe(void *unused) {
  (void)unused;
  __atomic_store_n(&strobing, 1, __ATOMIC_RELAXED);
  while (!__atomic_load_n(&stopped, __ATOMIC_RELAXED)) {
    if (tsc() - get(&records.last) >= records.quantum &&
        !__atomic_load_n(&main_block->poll, __ATOMIC_RELAXED))
      __atomic_store_n(&main_block->poll, 1, __ATOMIC_RELAXED);
    __builtin_ia32_pause();
  }
  return NULL;
}

static int start_strobe(void) {
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread, NULL, strobe, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error != 0)
    return error;
  pthread_detach(thread);
  /* Until it runs, or a tenth of a second has passed: the first intervals are to count, too. */
  uint64_t begin = monotonic_ns();
  while (!__atomic_load_n(&strobing, __ATOMIC_RELAXED) && monotonic_ns() - begin < 100000000u)
    sched_yield();
  return 0;
}

/* Of the `count` shortest intervals. */
static uint64_t percentile(uint64_t count, unsigned percent) {
  uint64_t rank = (uint64_t)((unsigned __int128)count * percent / 100), seen = 0;
  for (unsigned i = 0; i < BUCKETS; i++) {
    seen += get(&records.histogram[i]);
    if (seen > rank) {
      uint64_t v = value_of(i), max = get(&records.max);
      return v < max ? v : max;
    }
  }
  return get(&records.max);
}

/* Thousandths, since this file has general registers only. */
static uint64_t mean_milli(uint64_t sum, uint64_t count) {
  return count ? (uint64_t)((unsigned __int128)sum * 1000 / count) : 0;
}

static void report(void) {
  __atomic_store_n(&stopped, 1, __ATOMIC_RELAXED);
  if (getpid() != owner)
    return;
  uint64_t n = 0, hz = first_hz;
  for (unsigned i = 0; i < BUCKETS; i++)
    n += get(&records.histogram[i]);
  if (monotonic_ns() - start_ns > 320 * (uint64_t)CALIBRATION_NS)
    hz = hz_since(start_tsc, start_ns);
  uint64_t error_sum = get(&records.error_sum), disturbed = get(&records.disturbed);
  uint64_t calm = n - disturbed, calm_error_sum = error_sum - get(&records.disturbed_error_sum);
  uint64_t mean = mean_milli(get(&records.last) - records.begin, n), mae = mean_milli(error_sum, n);
  uint64_t calm_mae = mean_milli(calm_error_sum, calm);
  char line[640];
  int length = snprintf(
      line, sizeof line,
      "{\"quantum_cycles\":%llu, \"yields\":%llu, \"interval_mean\":%llu.%03u, "
      "\"interval_mae\":%llu.%03u, \"interval_p50\":%llu, \"interval_p99\":%llu, "
      "\"interval_max\":%llu, \"tsc_hz\":%llu, \"disturbed\":%llu, \"calm_mae\":%llu.%03u, "
      "\"calm_p99\":%llu, \"readings\":%llu}\n",
      (unsigned long long)records.quantum, (unsigned long long)n, (unsigned long long)(mean / 1000),
      (unsigned)(mean % 1000), (unsigned long long)(mae / 1000), (unsigned)(mae % 1000),
      (unsigned long long)percentile(n, 50), (unsigned long long)percentile(n, 99),
      (unsigned long long)get(&records.max), (unsigned long long)hz, (unsigned long long)disturbed,
      (unsigned long long)(calm_mae / 1000), (unsigned)(calm_mae % 1000),
      (unsigned long long)percentile(calm, 99), (unsigned long long)main_block->readings);
  int fd = 2;
  if (out_path[0]) {
    fd = open(out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
      fprintf(stderr, "curtail: CURTAIL_TIMING_OUT=%s: %s\n", out_path, strerror(errno));
      fd = 2;
    }
  }
  if (write(fd, line, (size_t)length) != length)
    fprintf(stderr, "curtail: could not write the timing report\n");
  if (fd != 2)
    close(fd);
}

/* `2us`, `500ns`, `1.5ms`, `4000cycles`: cycles, or 0 if it is none of these. */
static uint64_t quantum_of(const char *text, uint64_t hz) {
  uint64_t value = 0, scale = 1;
  const char *p = text;
  int digits = 0, fraction = 0;
  for (; isdigit((unsigned char)*p) || (*p == '.' && !fraction); p++) {
    if (*p == '.') {
      fraction = 1;
      continue;
    }
    if (++digits > 12)
      return 0;
    value = value * 10 + (uint64_t)(*p - '0');
    scale *= fraction ? 10 : 1;
  }
  static const struct {
    const char *name;
    uint64_t ns;
  } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  if (digits == 0)
    return 0;
  if (strcmp(p, "cycles") == 0)
    return value / scale;
  for (unsigned i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(p, units[i].name) == 0) {
      unsigned __int128 ns = (unsigned __int128)value * units[i].ns;
      return (uint64_t)(ns * hz / 1000000000u / scale);
    }
  }
  return 0;
}

static void calibrate(void) {
  both(&start_tsc, &start_ns);
  while (monotonic_ns() - start_ns < CALIBRATION_NS)
    __builtin_ia32_pause();
  first_hz = hz_since(start_tsc, start_ns);
}

/* Runs before main in every program that the driver links (it roots the symbol); without
 * CURTAIL_TIMING it does nothing. */
__attribute__((constructor)) void curtail_timing_start(void) {
  const char *spec = getenv("CURTAIL_TIMING");
  if (spec == NULL || *spec == 0)
    return;
  calibrate();
  records.quantum = quantum_of(spec, first_hz);
  if (records.quantum == 0 || records.quantum > (uint64_t)1 << 40) {
    fprintf(stderr,
            "curtail: CURTAIL_TIMING=%s is no duration: write 500ns, 2us, 1ms or 4000cycles\n",
            spec);
    return;
  }
  const char *path = getenv("CURTAIL_TIMING_OUT");
  if (path != NULL && strlen(path) < sizeof out_path)
    strcpy(out_path, path);
  owner = getpid();
  main_block = curtail_safepoint_self();
  curtail_quiet_hook = record;
  main_block->yield = record;
  uint32_t mode = curtail_safepoint_kind() == 1 ? CURTAIL_FLAG : CURTAIL_CLOCK;
  set(&records.last, tsc());
  int error = mode == CURTAIL_FLAG ? start_strobe() : 0;
  if (error != 0) {
    main_block->yield = NULL;
    fprintf(stderr, "curtail: no thread for CURTAIL_TIMING: %s\n", strerror(error));
    return;
  }
  atexit(report);
  uint64_t now = tsc();
  records.begin = now;
  set(&records.last, now);
  curtail_safepoint_arm(main_block, mode, now, now + records.quantum);
}
