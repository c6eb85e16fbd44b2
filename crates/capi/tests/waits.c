/* Handlers that wait for each other, by the locks of C, on the one thread that serves them all: who
   waits blocks its request and not the thread. */
#include "client.h"

#include <pthread.h>

static curtail_error error;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int waiting, gone;

static int handle(void *context, void *state, const uint8_t *request, size_t length,
                  curtail_response *response) {
  CHECK(length == 4);
  CHECK(pthread_mutex_lock(&lock) == 0);
  if (memcmp(request, "wait", 4) == 0) {
    waiting++;
    CHECK(pthread_cond_broadcast(&changed) == 0);
    while (!gone)
      CHECK(pthread_cond_wait(&changed, &lock) == 0);
  } else {
    /* Not before both others wait. */
    while (waiting < 2)
      CHECK(pthread_cond_wait(&changed, &lock) == 0);
    gone = 1;
    CHECK(pthread_cond_broadcast(&changed) == 0);
  }
  CHECK(pthread_mutex_unlock(&lock) == 0);
  return curtail_response_write(response, request, length);
}

static void *run(void *server) { return (void *)(intptr_t)curtail_server_run(server, NULL); }

int main(void) {
  curtail_app app = {.size = sizeof app, .handle = handle};
  curtail_settings *settings = curtail_settings_new();
  CHECK(curtail_set(settings, "listen", "udp://127.0.0.1:0", &error) == CURTAIL_OK);
  CHECK(curtail_set(settings, "workers", "1", &error) == CURTAIL_OK);
  curtail_server *server;
  CHECK(curtail_server_new(&app, settings, &server, &error) == CURTAIL_OK);
  curtail_settings_free(settings);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, server) == 0);
  int waits = connect_to(server), goes = connect_to(server);
  tell(goes, "goes");
  tell(waits, "wait");
  tell(waits, "wait");
  hear(waits, "wait");
  hear(waits, "wait");
  hear(goes, "goes");
  curtail_server_shutdown(server);
  CHECK(pthread_join(thread, NULL) == 0);
  curtail_server_free(server);
  close(waits);
  close(goes);
  puts("all as it should be");
  return 0;
}
