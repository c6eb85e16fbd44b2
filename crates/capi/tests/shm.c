/* A client over shared memory, one request at a time and many, and what it gets wrong. */
#include "client.h"

#include <pthread.h>

static curtail_error error;

static int handle(void *context, void *state, const uint8_t *request, size_t length,
                  curtail_response *response) {
  if (length == 1 && request[0] == '-')
    return 0;
  return curtail_response_write(response, request, length);
}

static int setup_worker(void *context, uint16_t worker, void **state, curtail_error *why) {
  *state = context;
  return 0;
}

static void teardown_worker(void *context, void *state) {}

static void *run(void *server) { return (void *)(intptr_t)curtail_server_run(server, NULL); }

static void ask_all(const char *path) {
  curtail_client *client;
  curtail_answer answer;
  uint32_t tag, tags[8];
  CHECK(curtail_client_connect(path, &client, &error) == CURTAIL_OK);
  for (uint32_t round = 0; round < 1000; round++) {
    CHECK(curtail_client_submit(client, &round, sizeof round, &tag, &error) == CURTAIL_OK);
    CHECK(curtail_client_next(client, -1, &answer, &error) == CURTAIL_OK);
    CHECK(answer.tag == tag && answer.why == NULL && answer.length == sizeof round);
    CHECK(memcmp(answer.bytes, &round, sizeof round) == 0);
  }
  for (int at = 0; at < 8; at++)
    CHECK(curtail_client_submit(client, &"-?"[at % 2], 1, &tags[at], &error) == CURTAIL_OK);
  FAILS(CURTAIL_FULL, "before others", curtail_client_submit(client, "x", 1, &tag, &error));
  for (int left = 8; left > 0; left--) {
    int at = 0;
    CHECK(curtail_client_next(client, -1, &answer, &error) == CURTAIL_OK);
    while (at < 8 && tags[at] != answer.tag)
      at++;
    CHECK(at < 8);
    tags[at] = 0;
    CHECK((answer.why == NULL) == (at % 2 == 1) && answer.length == (size_t)(at % 2));
    CHECK(answer.why == NULL || strcmp(answer.why, "the handler gave no response") == 0);
  }
  FAILS(CURTAIL_MISUSE, "no request", curtail_client_next(client, -1, &answer, &error));
  FAILS(CURTAIL_FULL, "no answer yet", curtail_client_next(client, 0, &answer, &error));
  FAILS(CURTAIL_MISUSE, "half of the ring",
        curtail_client_submit(client, path, (size_t)1 << 20, &tag, &error));
  FAILS(CURTAIL_MISUSE, "NULL", curtail_client_submit(client, NULL, 1, &tag, &error));
  FAILS(CURTAIL_MISUSE, "NULL", curtail_client_submit(NULL, "x", 1, &tag, &error));
  FAILS(CURTAIL_MISUSE, "NULL", curtail_client_next(client, -1, NULL, &error));
  curtail_client_free(client);
  FAILS(CURTAIL_MISUSE, "NULL", curtail_client_connect(NULL, &client, &error));
  CHECK(client == NULL);
}

int main(void) {
  char url[128];
  pthread_t thread;
  void *ended;
  curtail_server *server;
  curtail_client *client;
  curtail_app app = {.size = sizeof app,
                     .setup_worker = setup_worker,
                     .teardown_worker = teardown_worker,
                     .handle = handle};
  curtail_settings *settings = curtail_settings_new();
  snprintf(url, sizeof url, "shm:///tmp/curtail-capi-%d.sock?requests=8", (int)getpid());
  CHECK(curtail_set(settings, "listen", url, &error) == CURTAIL_OK);
  CHECK(curtail_set(settings, "workers", "1", &error) == CURTAIL_OK);
  *strchr(url, '?') = 0;
  const char *path = url + strlen("shm://");
  FAILS(CURTAIL_SYSTEM, path, curtail_client_connect(path, &client, &error));
  CHECK(curtail_server_new(&app, settings, &server, &error) == CURTAIL_OK);
  curtail_settings_free(settings);
  CHECK(strcmp(curtail_server_address(server), url) == 0);
  CHECK(pthread_create(&thread, NULL, run, server) == 0);
  ask_all(path);
  CHECK(curtail_client_connect(path, &client, &error) == CURTAIL_OK);
  curtail_server_shutdown(server);
  CHECK(pthread_join(thread, &ended) == 0 && (intptr_t)ended == CURTAIL_OK);
  curtail_answer answer;
  FAILS(CURTAIL_ENDED, "closed", curtail_client_next(client, 60000000000, &answer, &error));
  FAILS(CURTAIL_ENDED, "ended", curtail_client_submit(client, "x", 1, NULL, &error));
  curtail_client_free(client);
  curtail_client_free(NULL);
  curtail_server_free(server);
  puts("all as it should be");
  return 0;
}
