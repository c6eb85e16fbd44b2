/* What the test programs share: checks that end the program, and a client of one datagram. */
#include <curtail.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                      \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

/* The call fails as it should, with words of which these are part. */
#define FAILS(wanted, words, call)                                                                 \
  do {                                                                                             \
    memset(&error, 'x', sizeof error);                                                             \
    curtail_status got = (call);                                                                   \
    if (got != (wanted) || error.status != (wanted) ||                                             \
        memchr(error.message, 0, sizeof error.message) == NULL ||                                  \
        strstr(error.message, (words)) == NULL) {                                                  \
      fprintf(stderr, "%s:%d: %d: %.256s\n", __FILE__, __LINE__, got, error.message);              \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

/* A socket to the server. It gives up after a minute: a deadlock becomes a failure. */
static inline int connect_to(const curtail_server *server) {
  const char *colon = strrchr(curtail_server_address(server), ':');
  struct sockaddr_in to;
  memset(&to, 0, sizeof to);
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons((uint16_t)atoi(colon + 1));
  struct timeval patience = {60, 0};
  int line = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(line >= 0);
  CHECK(setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  CHECK(connect(line, (struct sockaddr *)&to, sizeof to) == 0);
  return line;
}

static inline void tell(int line, const char *request) {
  CHECK(send(line, request, strlen(request), 0) == (ssize_t)strlen(request));
}

/* The next answer is this one. */
static inline void hear(int line, const char *wanted) {
  char answer[256];
  ssize_t length = recv(line, answer, sizeof answer - 1, 0);
  CHECK(length >= 0);
  answer[length] = '\0';
  if (strcmp(answer, wanted) != 0) {
    fprintf(stderr, "answered %s, not %s\n", answer, wanted);
    _exit(1);
  }
}

static inline void ask(int line, const char *request, const char *wanted) {
  tell(line, request);
  hear(line, wanted);
}

/* All that was asked of the server before is in force. */
static inline void in_force(curtail_server *server) {
  curtail_stats *stats;
  CHECK(curtail_server_stats(server, &stats, NULL) == CURTAIL_OK);
  curtail_stats_free(stats);
}
