/* A server of HTTP in C: requests come taken apart, answers have a status. */
#include "client.h"

#include <pthread.h>

static curtail_error error;

static int is(curtail_bytes bytes, const char *wanted) {
  return bytes.length == strlen(wanted) && memcmp(bytes.at, wanted, bytes.length) == 0;
}

static uint16_t classify(void *context, const uint8_t *request, size_t length) {
  curtail_http http;
  CHECK(curtail_http_parse(request, length, &http) == CURTAIL_OK);
  return is(http.path, "/report");
}

static int handle(void *context, void *state, const uint8_t *request, size_t length,
                  curtail_response *response) {
  curtail_http http;
  CHECK(curtail_http_parse(request, length, &http) == CURTAIL_OK);
  CHECK(curtail_http_parse((const uint8_t *)"hello", 5, &http) == CURTAIL_MISUSE);
  CHECK(curtail_http_parse(NULL, 0, &http) == CURTAIL_MISUSE);
  CHECK(curtail_http_parse(request, length, NULL) == CURTAIL_MISUSE);
  if (!is(http.path, "/echo"))
    return curtail_response_http(response, 404, NULL);
  CHECK(is(http.method, "POST") && is(http.query, "a=b") && is(http.body, "hi"));
  CHECK(is(curtail_http_header(request, length, "x-NAME"), "yes"));
  CHECK(curtail_http_header(request, length, "x").at == NULL);
  CHECK(curtail_http_header(request, length, NULL).at == NULL);
  CHECK(curtail_response_write(response, "gone", 4) == CURTAIL_OK);
  CHECK(curtail_response_http(NULL, 200, NULL) == CURTAIL_MISUSE);
  CHECK(curtail_response_http(response, 199, NULL) == CURTAIL_MISUSE);
  CHECK(curtail_response_http(response, 600, NULL) == CURTAIL_MISUSE);
  CHECK(curtail_response_http(response, 201, "text/plain") == CURTAIL_OK);
  return curtail_response_write(response, http.body.at, http.body.length);
}

static void *run(void *server) { return (void *)(intptr_t)curtail_server_run(server, NULL); }

/* The answer to a request on a connection of its own. */
static void asked(const curtail_server *server, const char *request, char *answer, size_t room) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  to.sin_port = htons((uint16_t)atoi(strrchr(curtail_server_address(server), ':') + 1));
  struct timeval patience = {60, 0};
  int line = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  CHECK(connect(line, (struct sockaddr *)&to, sizeof to) == 0);
  tell(line, request);
  size_t length = 0;
  for (ssize_t got; (got = recv(line, answer + length, room - 1 - length, 0)) != 0;) {
    CHECK(got > 0);
    length += (size_t)got;
  }
  answer[length] = '\0';
  close(line);
}

int main(void) {
  static const curtail_class classes[] = {{"rest", 0}, {"report", 0}};
  curtail_app app = {.size = sizeof app,
                     .classes = classes,
                     .class_count = 2,
                     .classify = classify,
                     .handle = handle};
  curtail_settings *settings = curtail_settings_new();
  CHECK(curtail_set(settings, "listen", "http://127.0.0.1:0", &error) == CURTAIL_OK);
  CHECK(curtail_set(settings, "workers", "1", &error) == CURTAIL_OK);
  curtail_server *server;
  CHECK(curtail_server_new(&app, settings, &server, &error) == CURTAIL_OK);
  curtail_settings_free(settings);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, server) == 0);
  char answer[1024];
  asked(server,
        "POST /echo?a=b HTTP/1.1\r\nHost: x\r\nX-Name: yes\r\nConnection: close\r\n"
        "Content-Length: 2\r\n\r\nhi",
        answer, sizeof answer);
  CHECK(strncmp(answer, "HTTP/1.1 201 ", 13) == 0);
  CHECK(strstr(answer, "Content-Type: text/plain\r\n") != NULL);
  CHECK(strcmp(strstr(answer, "\r\n\r\n"), "\r\n\r\nhi") == 0);
  asked(server, "GET /report HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", answer,
        sizeof answer);
  CHECK(strncmp(answer, "HTTP/1.1 404 ", 13) == 0);
  curtail_stats *stats;
  CHECK(curtail_server_stats(server, &stats, &error) == CURTAIL_OK);
  CHECK(stats->classes[0].completed + stats->classes[1].completed <= 2);
  curtail_stats_free(stats);
  curtail_server_shutdown(server);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(curtail_server_stats(server, &stats, &error) == CURTAIL_OK);
  CHECK(stats->classes[0].completed == 1 && stats->classes[1].completed == 1);
  curtail_stats_free(stats);
  curtail_server_free(server);
  puts("all as it should be");
  return 0;
}
