/*
 * Curtail for C and C++: an application's handlers, the server that runs them, and how to look at it
 * and change it while it runs.
 *
 * Link with libcurtail_c.a (`cargo build --release -p curtail-capi`):
 *
 *     curtail-cc -O2 -I include server.c -L target/release -lcurtail_c -o server
 *
 * Built by curtail-cc or curtail-c++, handlers are pre-empted; built by any other compiler, each
 * request runs to completion, and the server says so on standard error.
 *
 * Functions answer CURTAIL_OK (0) or say what was wrong, in words too where the caller gives them a
 * curtail_error; any `error` may be NULL. No panic of the library and no C++ exception of the
 * application crosses this border. Texts are UTF-8 and end in a zero byte; what is passed in is
 * copied where it is kept, unless it says otherwise. Times are nanoseconds. Where there is no memory
 * for the library's own needs, the process ends.
 */
#ifndef CURTAIL_H
#define CURTAIL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum curtail_status {
  CURTAIL_OK = 0,
  /* A NULL where none may be, text that is no UTF-8, a function that was called out of turn. */
  CURTAIL_MISUSE = 1,
  /* A setting that there is none of, or whose value does not do, or not with the others. */
  CURTAIL_BAD_SETTING = 2,
  /* The application's own setup or setup_worker refused. */
  CURTAIL_REFUSED = 3,
  /* The operating system did. */
  CURTAIL_SYSTEM = 4,
  /* The server has ended. */
  CURTAIL_ENDED = 5,
  /* There is no memory for so long a response. */
  CURTAIL_NO_MEMORY = 6,
  /* A fault of the library. */
  CURTAIL_INTERNAL = 7,
  /* Not now: a client has no room for a request, or there is no answer yet. */
  CURTAIL_FULL = 8
} curtail_status;

/* What was wrong, in one line. The caller's own; written by a call that fails. What has no room ends
 * in " …", behind a whole word. */
typedef struct curtail_error {
  curtail_status status;
  char message[1024];
} curtail_error;

/* ---- The application -------------------------------------------------------------------------- */

/* The answer to a request, while its handler runs. */
typedef struct curtail_response curtail_response;

/* Adds `length` bytes at the end. CURTAIL_NO_MEMORY leaves the response as it was. */
curtail_status curtail_response_write(curtail_response *response, const void *bytes, size_t length);

/* Adds `length` bytes at the end, zeroed, to be written in place; valid until the next call for this
   response. NULL: there is no memory, and the response is as it was. */
void *curtail_response_extend(curtail_response *response, size_t length);

/* Takes everything out again. */
void curtail_response_clear(curtail_response *response);

/* A class of requests, as statistics and type-aware policies know it. */
typedef struct curtail_class {
  const char *name;
  /* Expected service time; 0: unknown. */
  uint64_t service_ns;
} curtail_class;

/* From classify: the request is of none of the classes. */
#define CURTAIL_UNKNOWN UINT16_MAX

/* The class of the request that the caller works for, as classify said: cheap enough for every request.
   CURTAIL_UNKNOWN where it is of none, or the caller works for none. */
uint16_t curtail_request_class(void);

/* The class of a request, by its number. */
typedef uint16_t (*curtail_classify_fn)(void *context, const uint8_t *request, size_t length);

/*
 * An application. Only `size` and `handle` must be set; NULL elsewhere is the default that is named.
 * Functions are called by many threads at once. A handler may be interrupted at any safepoint, and
 * another request's handler may run on the same thread meanwhile, with thread-local variables of its
 * own. `request` is valid until the function returns, and never NULL. An exception that leaves one of them counts as
 * its failure.
 */
typedef struct curtail_app {
  /* sizeof(curtail_app). */
  size_t size;
  /* Passed to every function; must be valid until curtail_server_free has returned. */
  void *context;
  /* The classes, by number. Default: one, called "request". */
  const curtail_class *classes;
  size_t class_count;
  /* Called once, by curtail_server_new. Other than 0: a reason not to start, with words of its own in
     error->message if it likes. */
  int (*setup)(void *context, curtail_error *error);
  /* Called once on each worker's thread (number 0 and on; spare workers, which start when all others
     are stuck, come after those), and on the dispatcher's, which is worker UINT16_MAX and runs requests
     under some policies. *state goes to the handlers of that thread, which
     interrupt each other: no buffer that one of them fills. Other than 0: as above. */
  int (*setup_worker)(void *context, uint16_t worker, void **state, curtail_error *error);
  /* Called on the same thread at the end, for what setup_worker made; not for a worker that is stuck
     in a handler. */
  void (*teardown_worker)(void *context, void *state);
  /* Called on the dispatcher: must be quick, must accept any bytes. Where it waits, as handlers may, that
     delays this request alone (so also hint and overloaded). A number beyond the classes counts as the
     last one. Default: all are of class 0. An exception: the request is turned away, without an
     answer, and counted as malformed. */
  curtail_classify_fn classify;
  /* How much service the request will need, where that shows in its bytes, 0 where it does not; called
     on the dispatcher, under policies that ask for it (sjf, srpt). */
  uint64_t (*hint)(void *context, const uint8_t *request, size_t length);
  /* Serves one request; ordinary blocking code, on a stack of 1 MiB (setting stack-kib). What is in
     `response` when it returns 0 goes back; nothing in it: no answer. Other than 0: it failed. */
  int (*handle)(void *context, void *state, const uint8_t *request, size_t length,
                curtail_response *response);
  /* The handler failed: what to answer. Default: nothing. */
  void (*failed)(void *context, const uint8_t *request, size_t length, curtail_response *response);
  /* There is no room for this request: what to answer, on the dispatcher; or no memory for a stack to
     serve it on: then on a worker. Default: an empty frame or datagram. */
  void (*overloaded)(void *context, const uint8_t *request, size_t length,
                     curtail_response *response);
} curtail_app;

/* ---- HTTP: of a server that listens at http://IP:PORT ------------------------------------------ */

/*
 * `request` is then a request of HTTP/1.1 as it came: its first line, its headers, an empty line, its
 * body; a body in chunks is joined. What a handler writes is the body of the answer, with the status 200.
 * Content-Length, Date and Connection are the library's. A handler that fails is answered by 500, one
 * that writes nothing by an empty 200.
 */

/* Bytes of a request, without a zero byte at the end; `at` is NULL where there are none. */
typedef struct curtail_bytes {
  const char *at;
  size_t length;
} curtail_bytes;

/* A request, taken apart; all of it lies in the request's own bytes. */
typedef struct curtail_http {
  /* "GET"; "/item", without the query; what follows the "?", if one is there; what follows the head. */
  curtail_bytes method, path, query, body;
} curtail_http;

/* For classify, handle and the like. CURTAIL_MISUSE: it is no request of HTTP. */
curtail_status curtail_http_parse(const uint8_t *request, size_t length, curtail_http *http);

/* The first header of that name, in any case. */
curtail_bytes curtail_http_header(const uint8_t *request, size_t length, const char *name);

/* Begins the answer anew, with a status from 200 to 599 and a content type, which may be NULL; what is
   written next is its body. CURTAIL_MISUSE: another status; the answer stays as it was. */
curtail_status curtail_response_http(curtail_response *response, uint16_t status,
                                     const char *content_type);

/* ---- Settings ---------------------------------------------------------------------------------- */

/* Settings of a server to be, or of a policy to come. One thread's at a time. */
typedef struct curtail_settings curtail_settings;

/* None set; never NULL. Freeing NULL does nothing. */
curtail_settings *curtail_settings_new(void);
void curtail_settings_free(curtail_settings *settings);

/*
 * Sets one, in the words of the command line of `curtail serve` (without the dashes):
 *
 *   the policy    policy NAME (default tq; `curtail policies` has them all), quantum 2us, jbsq K,
 *                 ties msq|random|power-of-two, core fcfs|ps|las, victim random|longest,
 *                 work-conserving true|false, preemptive true|false, reserved N, weights 3,1,
 *                 priorities 1,0, deadlines 10us,1ms, queue-bounds 100,10, delta 2, profile-window N,
 *                 profile-slowdown 10, profile-deviation 10 (per cent), spillway N
 *   the server    listen udp://IP:PORT,tcp://IP:PORT or http://IP:PORT (must be set; port 0: the kernel
 *                 chooses),
 *                 workers N, cores 0,2-5, dispatchers N,
 *                 preempt auto|never|flag|clock|signal, dispatcher auto|busy|blocking, capacity N,
 *                 stack-kib N, drain 5s, seed N, record FILE, keep-out GLOB (may be given repeatedly),
 *                 safepoints-by-hand true|false, observable NAME (`curtail top` shows it by that name)
 *
 * A value that does not do is refused, and nothing changes.
 */
curtail_status curtail_set(curtail_settings *settings, const char *name, const char *value,
                           curtail_error *error);

/* ---- The server -------------------------------------------------------------------------------- */

/* A server. Any thread may call the functions below, handlers and other functions of the application
   excepted. */
typedef struct curtail_server curtail_server;

/* Checks the settings, opens the sockets, sets the application up. No thread runs yet; *server is NULL
   where it fails. Settings may be freed at once. */
curtail_status curtail_server_new(const curtail_app *app, const curtail_settings *settings,
                                  curtail_server **server, curtail_error *error);

/* Where it listens, with the ports that the kernel chose: "udp://127.0.0.1:4000"; the server's own. */
const char *curtail_server_address(const curtail_server *server);

/* Runs, once: the dispatcher on the calling thread, the workers on threads of their own. Returns after
   curtail_server_shutdown, when the requests under way are done. */
curtail_status curtail_server_run(curtail_server *server, curtail_error *error);

/* No more requests are taken. Before curtail_server_run: it will return at once. */
void curtail_server_shutdown(curtail_server *server);

/* The three changes below are asked for: a look (curtail_server_stats) that is asked for later is
   answered when they are in force. */

/* Another policy from now on; no request is lost. Of the settings, only those of the policy may be
   set, and its name must be. */
curtail_status curtail_server_switch(curtail_server *server, const curtail_settings *policy,
                                     curtail_error *error);

/* Another quantum from now on; 0: to completion. */
curtail_status curtail_server_set_quantum(curtail_server *server, uint64_t quantum_ns,
                                          curtail_error *error);

/*
 * Another classifier from now on, with a context of its own; `classify` NULL: the application's again.
 * Requests in the system keep the class that they have. It may be called by several threads at once, as
 * the application's. When it is in use no longer, or was refused (any status but CURTAIL_OK),
 * release(context) is called once, on any thread; `release` may be NULL.
 */
curtail_status curtail_server_classify_by(curtail_server *server, curtail_classify_fn classify,
                                          void *context, void (*release)(void *context),
                                          curtail_error *error);

/*
 * Ends a server that runs still, waits until none of the application's functions runs or will be called
 * again, and forgets the server; NULL does nothing. A handler that curtail_server_run gave up (setting
 * drain) and that goes on all the same, without safepoints, is waited for however long it takes: its
 * context, and what it works on, may go when this returns. A handler that waits, or comes to a
 * safepoint, does not go on once it was given up; what it holds is never released. Not while other
 * threads are in calls for the server, curtail_server_run excepted.
 */
void curtail_server_free(curtail_server *server);

/* ---- Clients over shared memory ---------------------------------------------------------------- */

/* A session with a server on this host that listens at "shm:///FILE". It is used by one thread at a
   time; threads may have one each. */
typedef struct curtail_client curtail_client;

/* An answer; its bytes are the client's, until the next call for it. */
typedef struct curtail_answer {
  /* Of its request. */
  uint32_t tag;
  const uint8_t *bytes;
  size_t length;
  /* NULL; or why there is no answer, and never will be. */
  const char *why;
} curtail_answer;

/* Connects to the server at that file. *client is NULL where it fails. */
curtail_status curtail_client_connect(const char *path, curtail_client **client,
                                      curtail_error *error);

/* Hands in a request, and never waits. CURTAIL_FULL: not before others are taken or answered. `tag` may
   be NULL. */
curtail_status curtail_client_submit(curtail_client *client, const void *request, size_t length,
                                     uint32_t *tag, curtail_error *error);

/* The next answer, in whatever order they come; waited for as long as it takes where within_ns is
   negative. CURTAIL_FULL: there is none by then. CURTAIL_ENDED: the session has ended. */
curtail_status curtail_client_next(curtail_client *client, int64_t within_ns,
                                   curtail_answer *answer, curtail_error *error);

/* Ends the session, and cancels its requests; NULL does nothing. */
void curtail_client_free(curtail_client *client);

/* ---- Statistics -------------------------------------------------------------------------------- */

/* Quantiles, accurate to two digits; all 0 where nothing was counted. */
typedef struct curtail_times {
  uint64_t p50, p90, p99, p99_9, max;
  double mean;
} curtail_times;

typedef struct curtail_class_stats {
  const char *name;
  /* Requests whose handler returned 0, failed, and for which there was no room. */
  uint64_t completed, failed, dropped;
  /* From arrival to the end, from arrival to the first run, and on a core. */
  curtail_times sojourn_ns, queueing_ns, service_ns;
} curtail_class_stats;

/* A look at a server, while it runs and after. */
typedef struct curtail_stats {
  /* By number. */
  const curtail_class_stats *classes;
  size_t class_count;
  /* What no class was found for. */
  curtail_class_stats unknown;
  /* The policy in force, and its quantum; 0: to completion. */
  const char *policy;
  uint64_t quantum_ns;
  /* How requests are pre-empted: never, flag, clock, signal. */
  const char *preempt;
  /* Why that is not what was asked for, and what the policy has decided for itself (such as workers
     reserved for classes), in a line each; or NULL. */
  const char *preempt_note;
  const char *decided;
  uint64_t preemptions;
  /* Inputs that were no requests, and responses that could not be sent. */
  uint64_t malformed, unsent;
  /* Requests in the system now; after the end, those that were given up. */
  uint64_t in_system;
} curtail_stats;

/* *stats is the caller's, to be freed; NULL where it fails (CURTAIL_ENDED: the server does not run, and
   never did to the end; or has not begun within a second). */
curtail_status curtail_server_stats(curtail_server *server, curtail_stats **stats,
                                    curtail_error *error);
void curtail_stats_free(curtail_stats *stats);

/* ---- Safepoints -------------------------------------------------------------------------------- */

/* A safepoint placed by hand, in code that is not instrumented (setting safepoints-by-hand): reads the
   clock, about 20 ns, and lets others run where the quantum is over. */
void curtail_safepoint_here(void);

/* No pre-emption between these two, which may be nested (curtail_safepoint.h has them, too). */
void curtail_enter_critical(void);
void curtail_leave_critical(void);

#ifdef __cplusplus
}
#endif

#endif
