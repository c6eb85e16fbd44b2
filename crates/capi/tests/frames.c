/* A handler whose frame does not fit on its stack of 64 KiB: the program ends with the overflow's
   message. Its argument says how large the frame is. One of 87 KiB ends in the guard, whoever compiled
   it. One of 4 MiB is larger than the guard: only code that probes its frames meets it. */
#include "client.h"

#include <pthread.h>

static __attribute__((noinline)) char medium(char last) {
  volatile char frame[87 * 1024];
  /* All of it may be looked at: it is no single byte. */
  __asm__ volatile("" : : "r"(frame) : "memory");
  frame[0] = last;
  return frame[0];
}

static __attribute__((noinline)) char large(char last) {
  volatile char frame[4 << 20];
  __asm__ volatile("" : : "r"(frame) : "memory");
  frame[0] = last;
  return frame[0];
}

static int handle(void *context, void *state, const uint8_t *request, size_t length,
                  curtail_response *response) {
  char kind = (char)request[0], answer = kind == 'm'   ? medium(kind)
                                         : kind == 'l' ? large(kind)
                                                       : kind;
  return curtail_response_write(response, &answer, 1);
}

static int setup_worker(void *context, uint16_t worker, void **state, curtail_error *why) {
  *state = context;
  return 0;
}

static void teardown_worker(void *context, void *state) {}

static void *run(void *server) { return (void *)(intptr_t)curtail_server_run(server, NULL); }

int main(int count, char **arguments) {
  curtail_error error;
  static char context;
  CHECK(count == 2);
  curtail_app app = {.size = sizeof app,
                     .context = &context,
                     .setup_worker = setup_worker,
                     .teardown_worker = teardown_worker,
                     .handle = handle};
  curtail_settings *settings = curtail_settings_new();
  CHECK(curtail_set(settings, "listen", "udp://127.0.0.1:0", &error) == CURTAIL_OK);
  CHECK(curtail_set(settings, "workers", "1", &error) == CURTAIL_OK);
  CHECK(curtail_set(settings, "policy", "fcfs", &error) == CURTAIL_OK);
  CHECK(curtail_set(settings, "stack-kib", "64", &error) == CURTAIL_OK);
  curtail_server *server;
  CHECK(curtail_server_new(&app, settings, &server, &error) == CURTAIL_OK);
  curtail_settings_free(settings);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, server) == 0);
  int line = connect_to(server);
  ask(line, "s", "s");
  tell(line, arguments[1]);
  hear(line, "the end of the program");
  return 0;
}
