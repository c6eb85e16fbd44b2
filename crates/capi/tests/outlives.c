/* A handler that goes on with its context after the server has given its request up: what it uses may
   be unmapped when curtail_server_free has returned, and no sooner. */
#include "client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

static curtail_error error;

/* In a mapping of its own. */
struct context {
  _Atomic int begun;
  _Atomic unsigned long long reads;
  _Atomic int torn_down;
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Longer than the server waits for it. */
static int handle(void *context, void *state, const uint8_t *request, size_t length,
                  curtail_response *response) {
  struct context *own = context;
  double end = now() + 3;
  atomic_store(&own->begun, 1);
  while (now() < end)
    atomic_fetch_add(&own->reads, 1);
  return 0;
}

static int setup_worker(void *context, uint16_t worker, void **state, curtail_error *why) {
  *state = context;
  return 0;
}

static void teardown_worker(void *context, void *state) {
  CHECK(state == context);
  atomic_fetch_add(&((struct context *)state)->torn_down, 1);
}

static void *run(void *server) { return (void *)(intptr_t)curtail_server_run(server, NULL); }

static void life(int join_first) {
  size_t bytes = 1 << 16;
  struct context *context =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(context != MAP_FAILED);
  curtail_app app = {.size = sizeof app,
                     .context = context,
                     .setup_worker = setup_worker,
                     .teardown_worker = teardown_worker,
                     .handle = handle};
  curtail_settings *settings = curtail_settings_new();
  CHECK(curtail_set(settings, "listen", "udp://127.0.0.1:0", &error) == CURTAIL_OK);
  CHECK(curtail_set(settings, "workers", "1", &error) == CURTAIL_OK);
  CHECK(curtail_set(settings, "policy", "fcfs", &error) == CURTAIL_OK);
  CHECK(curtail_set(settings, "drain", "200ms", &error) == CURTAIL_OK);
  curtail_server *server;
  CHECK(curtail_server_new(&app, settings, &server, &error) == CURTAIL_OK);
  curtail_settings_free(settings);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, server) == 0);
  int line = connect_to(server);
  tell(line, "go");
  while (!atomic_load(&context->begun))
    usleep(1000);
  if (join_first) {
    curtail_server_shutdown(server);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  curtail_server_free(server);
  /* The dispatcher's and the worker's. */
  CHECK(atomic_load(&context->torn_down) == 2);
  CHECK(munmap(context, bytes) == 0);
  if (!join_first)
    CHECK(pthread_join(thread, NULL) == 0);
  close(line);
}

int main(void) {
  life(0);
  life(1);
  puts("all as it should be");
  return 0;
}
