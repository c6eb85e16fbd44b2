/* All that a program can get wrong at the border, and what comes of it: a status and clear words. */
#include "client.h"

#include <pthread.h>
#include <stdatomic.h>

/* What the library calls instead of libm's. */
double curtail_log2(double x);
double curtail_pow(double x, double y);

static curtail_error error;
static atomic_int set_up, torn_down, released;

static uint16_t all_second(void *context, const uint8_t *request, size_t length) {
  (void)context, (void)request, (void)length;
  return 1;
}

static void release(void *context) {
  CHECK(context == &released);
  atomic_fetch_add(&released, 1);
}

static int handle(void *context, void *state, const uint8_t *request, size_t length,
                  curtail_response *response) {
  CHECK(context == &error && state == &set_up && request != NULL);
  CHECK(curtail_request_class() == (length == 3 && memcmp(request, "two", 3) == 0));
  CHECK(curtail_response_write(NULL, "a", 1) == CURTAIL_MISUSE);
  CHECK(curtail_response_write(response, NULL, 1) == CURTAIL_MISUSE);
  CHECK(curtail_response_write(response, NULL, 0) == CURTAIL_OK);
  CHECK(curtail_response_write(response, "wrong", 5) == CURTAIL_OK);
  curtail_response_clear(response);
  curtail_response_clear(NULL);
  CHECK(curtail_response_extend(NULL, 1) == NULL);
  CHECK(curtail_response_extend(response, SIZE_MAX) == NULL);
  CHECK(curtail_response_write(response, "<", 1) == CURTAIL_OK);
  char *middle = curtail_response_extend(response, length + 1);
  CHECK(middle != NULL && middle[length] == '\0');
  memcpy(middle, request, length);
  middle[length] = '>';
  curtail_enter_critical();
  curtail_safepoint_here();
  curtail_leave_critical();
  return 0;
}

static int setup_refuses(void *context, curtail_error *why) {
  (void)context;
  snprintf(why->message, sizeof why->message, "no database");
  return 1;
}

static int setup_worker(void *context, uint16_t worker, void **state, curtail_error *why) {
  (void)context, (void)worker, (void)why;
  *state = &set_up;
  atomic_fetch_add(&set_up, 1);
  return 0;
}

/* The second worker is the one that cannot start. */
static int second_refuses(void *context, uint16_t worker, void **state, curtail_error *why) {
  if (worker == 1)
    return 7;
  return setup_worker(context, worker, state, why);
}

static void teardown_worker(void *context, void *state) {
  CHECK(context == &error && state == &set_up);
  atomic_fetch_add(&torn_down, 1);
}

static const curtail_class classes[] = {{"first", 1000}, {"second", 0}};

static curtail_app good(void) {
  curtail_app app = {.size = sizeof app, .context = &error, .classes = classes, .class_count = 2};
  app.setup_worker = setup_worker;
  app.teardown_worker = teardown_worker;
  app.handle = handle;
  return app;
}

static curtail_settings *with(const char *name, const char *value) {
  curtail_settings *settings = curtail_settings_new();
  CHECK(curtail_set(settings, "listen", "udp://127.0.0.1:0", NULL) == CURTAIL_OK);
  CHECK(curtail_set(settings, "workers", "2", &error) == CURTAIL_OK);
  if (name != NULL)
    CHECK(curtail_set(settings, name, value, &error) == CURTAIL_OK);
  return settings;
}

static void bad_settings(void) {
  curtail_settings *s = with(NULL, NULL);
  FAILS(CURTAIL_MISUSE, "the settings is NULL", curtail_set(NULL, "policy", "tq", &error));
  FAILS(CURTAIL_MISUSE, "the name is NULL", curtail_set(s, NULL, "tq", &error));
  FAILS(CURTAIL_MISUSE, "the value is NULL", curtail_set(s, "policy", NULL, &error));
  FAILS(CURTAIL_MISUSE, "no UTF-8", curtail_set(s, "policy", "\xff", &error));
  FAILS(CURTAIL_BAD_SETTING, "did you mean `quantum`", curtail_set(s, "quantom", "2us", &error));
  FAILS(CURTAIL_BAD_SETTING, "did you mean `darc`", curtail_set(s, "policy", "dark", &error));
  static const char *bad[][2] = {
      {"quantum", "2"},      {"workers", "0"},     {"workers", "-1"},      {"workers", "many"},
      {"jbsq", "0"},         {"capacity", "0"},    {"stack-kib", "1"},     {"preempt", "often"},
      {"dispatcher", "no"},  {"dispatchers", "0"}, {"weights", "1,,2"},    {"delta", "0.5"},
      {"preemptive", "yes"}, {"ties", ""},         {"deadlines", "1us,x"}, {"cores", "a-b"},
      {"drain", "soon"},     {"seed", "1.5"},      {"delta", "NaN"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    FAILS(CURTAIL_BAD_SETTING, bad[i][0], curtail_set(s, bad[i][0], bad[i][1], &error));
  /* Longer than a message, with a character of several bytes at its end. */
  char many[4000];
  for (size_t i = 0; i + 2 < sizeof many; i += 2)
    memcpy(many + i, "\xc3\xa4", 3);
  FAILS(CURTAIL_BAD_SETTING, "policy `", curtail_set(s, "policy", many, &error));
  CHECK(strlen(error.message) > 1000 &&
        strcmp(error.message + strlen(error.message) - 4, " \xe2\x80\xa6") == 0);
  CHECK(curtail_set(s, "policy", many, NULL) == CURTAIL_BAD_SETTING);
  /* No message of ours is so long. */
  FAILS(CURTAIL_BAD_SETTING, "policy `", curtail_set(s, "policy", "none", &error));
  CHECK(strstr(error.message, "\xe2\x80\xa6") == NULL);
  CHECK(curtail_log2(1) == 0 && curtail_log2(4096) == 12 && curtail_log2(0.25) == -2);
  CHECK(curtail_log2(200) > 7.6438561897747 && curtail_log2(200) < 7.6438561897748);
  CHECK(curtail_log2(0) < -1e308 && curtail_log2(0x1p-1070) == -1070 &&
        curtail_log2(-1) != curtail_log2(-1));
  static const double powers[][3] = {
      {2, 0.5, 1.4142135623730951},
      {10, -2.5, 0.0031622776601683794},
      {0.3, 0.333, 0.669701663687948},
      {9, 0.5, 3},
      {1e300, 0.01, 1000},
      {2, -1073.5, 0},
      {0, 0.5, 0},
      {1, 1e300, 1},
      {-2, 3, -8},
      {1.0000001, 3e9, 1.9423975992963885e130},
      {0.9999999, 1e9 + 0.5, 3.7200573854907535e-44},
      {-1, 3000000001.0, -1},
      {-1, 3000000000.0, 1},
  };
  for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) {
    double got = curtail_pow(powers[i][0], powers[i][1]), wanted = powers[i][2];
    double off = got > wanted ? got - wanted : wanted - got;
    CHECK(off <= 1e-300 || off <= 1e-12 * (wanted > 0 ? wanted : -wanted));
  }
  CHECK(curtail_pow(0, -0.5) > 1e308 && curtail_pow(2, 1024.5) > 1e308);
  CHECK(curtail_pow(-2, 0.5) != curtail_pow(-2, 0.5));
  curtail_settings_free(s);
  curtail_settings_free(NULL);
}

/* One that is not made; it leaves nothing behind. */
static void refused(curtail_status status, const char *words, const curtail_app *app,
                    curtail_settings *settings) {
  curtail_server *server = (curtail_server *)&error;
  FAILS(status, words, curtail_server_new(app, settings, &server, &error));
  CHECK(server == NULL);
  curtail_settings_free(settings);
}

static void bad_servers(void) {
  curtail_app app = good();
  refused(CURTAIL_MISUSE, "the application is NULL", NULL, with(NULL, NULL));
  refused(CURTAIL_MISUSE, "the settings is NULL", &app, NULL);
  FAILS(CURTAIL_MISUSE, "NULL", curtail_server_new(&app, NULL, NULL, &error));
  app.size = 0;
  refused(CURTAIL_MISUSE, "sizeof(curtail_app)", &app, with(NULL, NULL));
  app = good(), app.handle = NULL;
  refused(CURTAIL_MISUSE, "handle is NULL", &app, with(NULL, NULL));
  app = good(), app.classes = NULL;
  refused(CURTAIL_MISUSE, "classes is NULL", &app, with(NULL, NULL));
  static const curtail_class nameless[] = {{"first", 0}, {NULL, 0}};
  app = good(), app.classes = nameless;
  refused(CURTAIL_MISUSE, "classes[1].name is NULL", &app, with(NULL, NULL));
  app = good(), app.setup = setup_refuses;
  refused(CURTAIL_REFUSED, "no database", &app, with(NULL, NULL));

  app = good();
  refused(CURTAIL_BAD_SETTING, "listen is not set", &app, curtail_settings_new());
  refused(CURTAIL_BAD_SETTING, "listen: ", &app, with("listen", "ftp://127.0.0.1:0"));
  refused(CURTAIL_BAD_SETTING, "quantum", &app, with("quantum", "0"));
  refused(CURTAIL_BAD_SETTING, "dispatchers", &app, with("dispatchers", "3"));
  refused(CURTAIL_BAD_SETTING, "record", &app, with("record", "/nonexistent/file"));
  curtail_settings *unfit = with("reserved", "2");
  CHECK(curtail_set(unfit, "policy", "darc-static", &error) == CURTAIL_OK);
  refused(CURTAIL_BAD_SETTING, "polic", &app, unfit);

  curtail_server *first;
  curtail_settings *settings = with(NULL, NULL);
  CHECK(curtail_server_new(&app, settings, &first, NULL) == CURTAIL_OK);
  curtail_settings_free(settings);
  refused(CURTAIL_SYSTEM, "in use", &app, with("listen", curtail_server_address(first)));
  /* It has not run: a look waits for it a while, and finds nothing. */
  curtail_stats *stats = (curtail_stats *)&error;
  FAILS(CURTAIL_ENDED, "does not run", curtail_server_stats(first, &stats, &error));
  CHECK(stats == NULL);
  curtail_server_free(first);
  CHECK(set_up == 0);
}

static void no_server(void) {
  FAILS(CURTAIL_MISUSE, "the server is NULL", curtail_server_run(NULL, &error));
  FAILS(CURTAIL_MISUSE, "the server is NULL", curtail_server_switch(NULL, NULL, &error));
  FAILS(CURTAIL_MISUSE, "the server is NULL", curtail_server_set_quantum(NULL, 1, &error));
  FAILS(CURTAIL_MISUSE, "the server is NULL", curtail_server_stats(NULL, NULL, &error));
  int before = released;
  FAILS(CURTAIL_MISUSE, "the server is NULL",
        curtail_server_classify_by(NULL, all_second, &released, release, &error));
  CHECK(released == before + 1);
  CHECK(curtail_server_address(NULL) == NULL);
  curtail_server_shutdown(NULL);
  curtail_server_free(NULL);
  curtail_stats_free(NULL);
}

static void *run(void *server) { return (void *)(intptr_t)curtail_server_run(server, NULL); }

static pthread_t start(const curtail_app *app, curtail_settings *settings,
                       curtail_server **server) {
  CHECK(curtail_server_new(app, settings, server, &error) == CURTAIL_OK);
  curtail_settings_free(settings);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, *server) == 0);
  return thread;
}

static curtail_status ended(pthread_t thread) {
  void *status;
  CHECK(pthread_join(thread, &status) == 0);
  return (curtail_status)(intptr_t)status;
}

static void changes(curtail_server *server) {
  curtail_settings *no_policy = curtail_settings_new(), *more = with("policy", "fcfs");
  FAILS(CURTAIL_MISUSE, "the policy is NULL", curtail_server_switch(server, NULL, &error));
  /* What is refused changes nothing: it is not one of these settings. */
  FAILS(CURTAIL_BAD_SETTING, "workers", curtail_set(no_policy, "workers", "0", &error));
  FAILS(CURTAIL_BAD_SETTING, "no policy", curtail_server_switch(server, no_policy, &error));
  FAILS(CURTAIL_BAD_SETTING, "workers", curtail_server_switch(server, more, &error));
  CHECK(curtail_set(no_policy, "policy", "darc-static", &error) == CURTAIL_OK);
  CHECK(curtail_set(no_policy, "reserved", "9", &error) == CURTAIL_OK);
  FAILS(CURTAIL_BAD_SETTING, "polic", curtail_server_switch(server, no_policy, &error));
  curtail_settings_free(no_policy);
  curtail_settings_free(more);
  FAILS(CURTAIL_MISUSE, "statistics", curtail_server_stats(server, NULL, &error));
}

static void a_life(void) {
  curtail_app app = good();
  curtail_server *server;
  set_up = torn_down = 0;
  pthread_t thread = start(&app, with(NULL, NULL), &server);
  CHECK(curtail_request_class() == CURTAIL_UNKNOWN);
  int line = connect_to(server);
  ask(line, "one", "<one>");
  changes(server);
  int before = released;
  CHECK(curtail_server_classify_by(server, all_second, &released, release, &error) == CURTAIL_OK);
  in_force(server);
  CHECK(released == before);
  ask(line, "two", "<two>");
  CHECK(curtail_server_classify_by(server, NULL, &released, release, &error) == CURTAIL_OK);
  in_force(server);
  CHECK(released == before + 2); /* the one that goes, and the one that never came */
  ask(line, "three", "<three>");
  curtail_server_shutdown(server);
  CHECK(ended(thread) == CURTAIL_OK);
  CHECK(set_up == torn_down && set_up >= 2);

  curtail_stats *stats;
  CHECK(curtail_server_stats(server, &stats, &error) == CURTAIL_OK);
  CHECK(stats->class_count == 2 && strcmp(stats->classes[1].name, "second") == 0);
  CHECK(stats->classes[0].completed == 2 && stats->classes[1].completed == 1);
  CHECK(stats->classes[0].service_ns.max > 0 && stats->classes[0].service_ns.mean > 0);
  CHECK(strcmp(stats->unknown.name, "unknown") == 0 && stats->unknown.completed == 0);
  CHECK(strcmp(stats->policy, "tq") == 0 && stats->quantum_ns == 2000 && stats->in_system == 0);
  curtail_stats_free(stats);

  FAILS(CURTAIL_MISUSE, "run before", curtail_server_run(server, &error));
  FAILS(CURTAIL_ENDED, "ended", curtail_server_set_quantum(server, 1, &error));
  before = released;
  FAILS(CURTAIL_ENDED, "ended",
        curtail_server_classify_by(server, all_second, &released, release, &error));
  CHECK(released == before + 1);
  curtail_server_free(server);
  close(line);
}

static void odd_lives(void) {
  curtail_app app = good();
  curtail_server *server;
  /* Ended before it begins. */
  curtail_settings *settings = with(NULL, NULL);
  CHECK(curtail_server_new(&app, settings, &server, &error) == CURTAIL_OK);
  curtail_settings_free(settings);
  curtail_server_shutdown(server);
  CHECK(curtail_server_run(server, &error) == CURTAIL_OK);
  curtail_server_free(server);
  /* Freed while it runs. */
  pthread_t thread = start(&app, with(NULL, NULL), &server);
  int line = connect_to(server);
  ask(line, "alive", "<alive>");
  curtail_server_free(server);
  CHECK(ended(thread) == CURTAIL_OK);
  close(line);
  /* A worker cannot start; those that could are torn down. */
  app.setup_worker = second_refuses;
  set_up = torn_down = 0;
  settings = with(NULL, NULL);
  CHECK(curtail_server_new(&app, settings, &server, &error) == CURTAIL_OK);
  curtail_settings_free(settings);
  FAILS(CURTAIL_REFUSED, "setup_worker: it returned 7", curtail_server_run(server, &error));
  CHECK(set_up >= 1 && torn_down == set_up);
  curtail_server_free(server);
}

int main(void) {
  bad_settings();
  bad_servers();
  no_server();
  a_life();
  odd_lives();
  puts("all as it should be");
  return 0;
}
