// Masks, handlers, the waits that they end, and children.

#define _GNU_SOURCE
#include "check.h"
#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static volatile sig_atomic_t came;
static volatile int enough;
static pthread_t first;

static void on(int signal) {
  (void)signal;
  came++;
}

// Sends a signal again and again, since the first may come before the wait that it is to end.
static void *pester(void *argument) {
  int signal = (int)(long)argument;
  while (!enough) {
    CHECK((signal == SIGUSR2 ? pthread_kill(first, signal) : kill(getpid(), signal)) == 0);
    usleep(5000);
  }
  return NULL;
}

// A wait may end for a handler that has run just before it.
#define CHECK_INTERRUPTED(wait)                                                                    \
  do {                                                                                             \
    CHECK((wait) == -1 && errno == EINTR);                                                         \
  } while (came == 0)

static pthread_t begin(int signal) {
  pthread_t thread;
  enough = came = 0;
  CHECK(pthread_create(&thread, NULL, pester, (void *)(long)signal) == 0);
  return thread;
}

static void end(pthread_t thread) {
  CHECK(came > 0);
  enough = 1;
  CHECK(pthread_join(thread, NULL) == 0);
}

static void waits_end_by_handlers(void) {
  struct sigaction action = {.sa_handler = on}, old;
  CHECK(sigaction(SIGUSR2, &action, NULL) == 0 && sigaction(SIGHUP, &action, NULL) == 0);
  CHECK(sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler == on);
  pthread_t other = begin(SIGUSR2);
  CHECK_INTERRUPTED(poll(NULL, 0, -1));
  end(other);
  int pipes[2];
  char byte;
  CHECK(pipe(pipes) == 0);
  other = begin(SIGHUP);
  CHECK_INTERRUPTED(read(pipes[0], &byte, 1));
  end(other);
  other = begin(SIGHUP);
  CHECK_INTERRUPTED(pause());
  end(other);
  printf("handlers end waits\n");
}

static void *poll_one(void *fd) {
  struct pollfd poll_for = {.fd = *(int *)fd, .events = POLLIN};
  return (void *)(long)poll(&poll_for, 1, -1);
}

static void *send_one(void *unused) {
  usleep(20000);
  CHECK(kill(getpid(), SIGHUP) == 0);
  while (came == 0)
    sched_yield();
  // By now a wait that it ends has ended, or nearly so.
  for (int i = 0; i < 50; i++)
    sched_yield();
  return unused;
}

// What is for the process, the first thread has, also where that is in no wait which a handler ends.
static void others_wait_on(void) {
  int pipes[2];
  void *result;
  pthread_t waits, sends;
  came = 0;
  CHECK(pipe(pipes) == 0);
  CHECK(pthread_create(&waits, NULL, poll_one, &pipes[0]) == 0);
  CHECK(pthread_create(&sends, NULL, send_one, NULL) == 0);
  CHECK(pthread_join(sends, NULL) == 0);
  CHECK(write(pipes[1], "x", 1) == 1);
  CHECK(pthread_join(waits, &result) == 0 && result == (void *)1);
  printf("others wait on\n");
}

// The process's threads that run the program, by what the kernel says.
static int all;

// How many of them block a signal.
static int blocked_by(int signal) {
  int count = 0;
  all = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks);
  for (struct dirent *task; (task = readdir(tasks));) {
    char path[300], line[200], name[64] = "";
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    FILE *status = task->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (!status)
      continue;
    while (fgets(line, sizeof line, status)) {
      sscanf(line, "Name: %63s", name);
      sscanf(line, "SigBlk: %llx", &mask);
    }
    fclose(status);
    int is_the_runtimes = !strncmp(name, "curtail-", 8) && !isdigit(name[8]);
    all += !is_the_runtimes;
    count += !is_the_runtimes && (mask >> (signal - 1) & 1);
  }
  closedir(tasks);
  return count;
}

// Whatever the kernel runs the program on lets through what the program does, from its start on.
static void all_of_it_follows(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  for (int i = 0; i < 5000 && blocked_by(SIGHUP); i++)
    usleep(1000);
  CHECK(blocked_by(SIGHUP) == 0);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  int blocked = blocked_by(SIGHUP);
  CHECK(blocked == all && all > 0 && blocked_by(SIGUSR1) == 0);
  CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
  CHECK(blocked_by(SIGHUP) == 0);
  printf("all of it follows\n");
}

static void masks_hold_signals_back(void) {
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0 && !sigismember(&old, SIGHUP));
  came = 0;
  CHECK(kill(getpid(), SIGHUP) == 0);
  usleep(5000);
  CHECK(came == 0);
  CHECK_INTERRUPTED(sigsuspend(&old));
  CHECK(came == 1);
  CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  CHECK(pthread_kill(pthread_self(), 0) == 0 && raise(SIGUSR2) == 0 && came == 2);
  printf("masks hold back\n");
}

static void *wait_for(void *argument) {
  sigset_t set;
  int signal;
  sigemptyset(&set);
  sigaddset(&set, (int)(long)argument);
  CHECK(sigwait(&set, &signal) == 0);
  return (void *)(long)signal;
}

static void a_thread_takes_signals(void) {
  sigset_t set;
  void *signal;
  pthread_t thread;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  for (int directed = 0; directed < 2; directed++) {
    CHECK(pthread_create(&thread, NULL, wait_for, (void *)SIGUSR1) == 0);
    CHECK((directed ? pthread_kill(thread, SIGUSR1) : kill(getpid(), SIGUSR1)) == 0);
    CHECK(pthread_join(thread, &signal) == 0 && signal == (void *)SIGUSR1);
  }
  printf("sigwait takes\n");
}

static void *nothing(void *argument) { return argument; }

static void children(void) {
  int status;
  pthread_t thread;
  pid_t child = fork();
  if (child == 0) {
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    _exit(7);
  }
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
  char *words[] = {"sh", "-c", "exit 5", NULL};
  CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ) == 0);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
  CHECK(WEXITSTATUS(system("exit 3")) == 3);
  FILE *output = popen("echo hi", "r");
  char text[10] = "";
  CHECK(fgets(text, sizeof text, output) && !strcmp(text, "hi\n") && pclose(output) == 0);
  child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", (char *)NULL);
    _exit(1);
  }
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 0);
  printf("children end\n");
}

static void *spin(void *unused) {
  (void)unused;
  while (!enough)
    ;
  return NULL;
}

// More threads that compute than there are processors: a timer's signal finds its way.
static void beside_spinners(void) {
  struct sigaction action = {.sa_handler = on};
  struct itimerval timer = {{0, 5000}, {0, 5000}}, none = {{0, 0}, {0, 0}};
  pthread_t threads[4];
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  enough = came = 0;
  for (int i = 0; i < 4; i++)
    CHECK(pthread_create(&threads[i], NULL, spin, NULL) == 0);
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
  CHECK_INTERRUPTED(poll(NULL, 0, -1));
  CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
  enough = 1;
  for (int i = 0; i < 4; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  printf("spinners give way\n");
}

int main(void) {
  first = pthread_self();
  all_of_it_follows();
  waits_end_by_handlers();
  others_wait_on();
  masks_hold_signals_back();
  a_thread_takes_signals();
  children();
  beside_spinners();
  return 0;
}
