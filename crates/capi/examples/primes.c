/*
 * A server in C: a request is a number, the answer how many primes there are up to it. Small numbers
 * take a microsecond, large ones milliseconds.
 *
 *   primes [SETTING=VALUE …]      such as: listen=udp://127.0.0.1:4000 policy=concord quantum=5us
 *
 * While it runs, it takes commands on standard input, and ends at its end, or by SIGINT or SIGTERM:
 *
 *   stats                         what has been served, by class
 *   policy SETTING=VALUE …        another policy from now on
 *   quantum NANOSECONDS           another quantum
 *   classify number | length      what says whether a request is short
 */
#include <curtail.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The application: parse, classify, handle --------------------------------------------------- */

/* The number in a request, or -1. Requests are any bytes. */
static long number_in(const uint8_t *request, size_t length) {
  long number = 0;
  if (length == 0 || length > 9)
    return -1;
  for (size_t i = 0; i < length; i++) {
    if (request[i] < '0' || request[i] > '9')
      return -1;
    number = number * 10 + (request[i] - '0');
  }
  return number;
}

enum { SHORT, LONG };
static const curtail_class classes[] = {{"short", 2000}, {"long", 0}};

static uint16_t classify(void *context, const uint8_t *request, size_t length) {
  (void)context;
  long number = number_in(request, length);
  if (number < 0)
    return CURTAIL_UNKNOWN;
  return number <= 100 ? SHORT : LONG;
}

/* Another classifier, to be put in place while the server runs: it looks at the length only. */
static uint16_t classify_by_length(void *context, const uint8_t *request, size_t length) {
  (void)request;
  return length <= *(const size_t *)context ? SHORT : LONG;
}

/* Nanoseconds, for policies that want to know. */
static uint64_t hint(void *context, const uint8_t *request, size_t length) {
  (void)context;
  long number = number_in(request, length);
  return number < 0 ? 0 : (uint64_t)number * 20;
}

/* An ordinary function: no loop knows that it may be interrupted. */
static long primes_up_to(long number) {
  long primes = 0;
  for (long candidate = 2; candidate <= number; candidate++) {
    int prime = 1;
    for (long divisor = 2; divisor * divisor <= candidate; divisor++) {
      if (candidate % divisor == 0) {
        prime = 0;
        break;
      }
    }
    primes += prime;
  }
  return primes;
}

/* What each worker has for itself. */
struct worker {
  uint16_t number;
};

static int setup_worker(void *context, uint16_t number, void **state, curtail_error *error) {
  (void)context;
  struct worker *worker = malloc(sizeof *worker);
  if (worker == NULL) {
    snprintf(error->message, sizeof error->message, "no memory for worker %u", number);
    return -1;
  }
  worker->number = number;
  *state = worker;
  return 0;
}

static void teardown_worker(void *context, void *state) {
  (void)context;
  free(state);
}

static int handle(void *context, void *state, const uint8_t *request, size_t length,
                  curtail_response *response) {
  (void)context;
  const struct worker *worker = state;
  long number = number_in(request, length);
  if (number < 0)
    return -1; /* failed() answers */
  char answer[64];
  int written = snprintf(answer, sizeof answer, "%.*s: %ld primes, says worker %u", (int)length,
                         (const char *)request, primes_up_to(number), worker->number);
  return curtail_response_write(response, answer, (size_t)written);
}

static void failed(void *context, const uint8_t *request, size_t length,
                   curtail_response *response) {
  (void)context, (void)request, (void)length;
  static const char sorry[] = "no number";
  curtail_response_write(response, sorry, sizeof sorry - 1);
}

/* ---- The server ------------------------------------------------------------------------------------ */

static void fail(const curtail_error *error) {
  fprintf(stderr, "primes: %s\n", error->message);
  exit(error->status == CURTAIL_BAD_SETTING ? 2 : 1);
}

static void *run(void *server) {
  static curtail_error error;
  return curtail_server_run(server, &error) == CURTAIL_OK ? NULL : &error;
}

/* Each word is SETTING=VALUE. */
static curtail_status set_all(curtail_settings *settings, char **words, curtail_error *error) {
  for (; *words != NULL; words++) {
    char *value = strchr(*words, '=');
    if (value != NULL)
      *value++ = '\0';
    curtail_status status = curtail_set(settings, *words, value != NULL ? value : "true", error);
    if (status != CURTAIL_OK)
      return status;
  }
  return CURTAIL_OK;
}

static void print_class(const curtail_class_stats *class) {
  printf("%s: %llu completed, %llu failed, %llu dropped; sojourn p50 %llu ns, p99 %llu ns\n",
         class->name, (unsigned long long)class->completed, (unsigned long long)class->failed,
         (unsigned long long)class->dropped, (unsigned long long)class->sojourn_ns.p50,
         (unsigned long long)class->sojourn_ns.p99);
}

static curtail_status print_stats(curtail_server *server, curtail_error *error) {
  curtail_stats *stats;
  curtail_status status = curtail_server_stats(server, &stats, error);
  if (status != CURTAIL_OK)
    return status;
  for (size_t i = 0; i < stats->class_count; i++)
    print_class(&stats->classes[i]);
  print_class(&stats->unknown);
  printf("%s, quantum %llu ns, pre-empted by %s, %llu pre-emptions\n", stats->policy,
         (unsigned long long)stats->quantum_ns, stats->preempt,
         (unsigned long long)stats->preemptions);
  curtail_stats_free(stats);
  return CURTAIL_OK;
}

static curtail_status obey(curtail_server *server, char **words, curtail_error *error) {
  static size_t short_length = 3;
  if (strcmp(words[0], "stats") == 0)
    return print_stats(server, error);
  if (strcmp(words[0], "policy") == 0) {
    curtail_settings *policy = curtail_settings_new();
    curtail_status status = set_all(policy, words + 1, error);
    if (status == CURTAIL_OK)
      status = curtail_server_switch(server, policy, error);
    curtail_settings_free(policy);
    return status;
  }
  if (strcmp(words[0], "quantum") == 0 && words[1] != NULL)
    return curtail_server_set_quantum(server, strtoull(words[1], NULL, 10), error);
  if (strcmp(words[0], "classify") == 0 && words[1] != NULL) {
    int by_length = strcmp(words[1], "length") == 0;
    return curtail_server_classify_by(server, by_length ? classify_by_length : NULL, &short_length,
                                      NULL, error);
  }
  snprintf(error->message, sizeof error->message, "what is `%s`?", words[0]);
  return CURTAIL_MISUSE;
}

/* Whether the main thread is in its fgets or elsewhere: the one under way or the next is its last. */
static void end_of_input(int signal) {
  (void)signal;
  close(STDIN_FILENO);
}

int main(int count, char **words) {
  (void)count;
  curtail_error error;
  curtail_app app = {
      .size = sizeof app,
      .classes = classes,
      .class_count = sizeof classes / sizeof *classes,
      .setup_worker = setup_worker,
      .teardown_worker = teardown_worker,
      .classify = classify,
      .hint = hint,
      .handle = handle,
      .failed = failed,
  };

  curtail_settings *settings = curtail_settings_new();
  if (curtail_set(settings, "listen", "udp://127.0.0.1:0", &error) != CURTAIL_OK)
    fail(&error);
  if (set_all(settings, words + 1, &error) != CURTAIL_OK)
    fail(&error);
  curtail_server *server;
  if (curtail_server_new(&app, settings, &server, &error) != CURTAIL_OK)
    fail(&error);
  curtail_settings_free(settings);

  /* The server's threads leave signals to this one, whose fgets they end. */
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  struct sigaction end = {.sa_handler = end_of_input};
  sigaction(SIGINT, &end, NULL);
  sigaction(SIGTERM, &end, NULL);
  pthread_sigmask(SIG_BLOCK, &ends, NULL);
  pthread_t runner;
  if (pthread_create(&runner, NULL, run, server) != 0)
    return 1;
  pthread_sigmask(SIG_UNBLOCK, &ends, NULL);

  printf("listening on %s\n", curtail_server_address(server));
  fflush(stdout);
  char line[256];
  while (fgets(line, sizeof line, stdin) != NULL) {
    char *parts[16] = {0}, *rest = line;
    for (int i = 0; i < 15 && (parts[i] = strtok_r(rest, " \n", &rest)) != NULL; i++)
      continue;
    if (parts[0] != NULL && obey(server, parts, &error) != CURTAIL_OK)
      printf("error: %s\n", error.message);
    printf("ok\n");
    fflush(stdout);
  }

  curtail_server_shutdown(server);
  void *trouble;
  pthread_join(runner, &trouble);
  if (trouble != NULL)
    fail(trouble);
  if (print_stats(server, &error) != CURTAIL_OK)
    fail(&error);
  curtail_server_free(server);
  return 0;
}
