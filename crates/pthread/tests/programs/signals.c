// Masks, handlers, the waits that they end, and children.

#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static volatile sig_atomic_t came;
static void on(int s) { came++; }
static void *waiter(void *argument) {
  sigset_t s;
  sigemptyset(&s);
  sigaddset(&s, SIGUSR1);
  int g;
  CHECK(sigwait(&s, &g) == 0 && g == SIGUSR1);
  return (void *)1;
}
static void *idle(void *argument) {
  usleep(30000);
  return 0;
}
static volatile int stop;
static void *spin(void *argument) {
  while (!stop)
    ;
  return 0;
}
static pthread_t main_thread;
static void *poke(void *argument) {
  usleep(20000);
  pthread_kill(main_thread, SIGUSR2);
  return 0;
}
static void *ticker(void *argument) {
  usleep(20000);
  kill(getpid(), SIGHUP);
  return 0;
}
int main(void) {
  pthread_t t, u;
  void *r;
  main_thread = pthread_self();
  sigset_t s, o;
  sigemptyset(&s);
  sigaddset(&s, SIGUSR1);
  CHECK(pthread_sigmask(SIG_BLOCK, &s, &o) == 0 && !sigismember(&o, SIGUSR1));
  pthread_create(&t, 0, waiter, 0);
  pthread_create(&u, 0, idle, 0);
  usleep(10000);
  CHECK(kill(getpid(), SIGUSR1) == 0);
  pthread_join(t, &r);
  CHECK(r == (void *)1);
  pthread_join(u, 0);
  printf("sigwait ok\n");
  struct sigaction a = {.sa_handler = on};
  CHECK(sigaction(SIGUSR2, &a, 0) == 0 && sigaction(SIGHUP, &a, 0) == 0 &&
        sigaction(SIGALRM, &a, 0) == 0);
  struct sigaction b;
  CHECK(sigaction(SIGHUP, 0, &b) == 0 && b.sa_handler == on);
  pthread_create(&t, 0, poke, 0);
  CHECK(poll(0, 0, 5000) == -1 && errno == EINTR && came == 1);
  pthread_join(t, 0);
  printf("pthread_kill ok\n");
  pthread_create(&t, 0, ticker, 0);
  int p[2];
  CHECK(pipe(p) == 0);
  char c;
  CHECK(read(p[0], &c, 1) == -1 && errno == EINTR && came == 2);
  pthread_join(t, 0);
  printf("eintr ok\n");
  pthread_create(&t, 0, ticker, 0);
  CHECK(pause() == -1 && errno == EINTR && came == 3);
  pthread_join(t, 0);
  sigemptyset(&s);
  sigaddset(&s, SIGHUP);
  sigprocmask(SIG_BLOCK, &s, &o);
  kill(getpid(), SIGHUP);
  usleep(20000);
  CHECK(came == 3);
  CHECK(sigsuspend(&o) == -1 && came == 4);
  sigprocmask(SIG_SETMASK, &o, 0);
  printf("sigsuspend ok\n");
  struct itimerval it = {{0, 0}, {0, 20000}};
  setitimer(ITIMER_REAL, &it, 0);
  CHECK(poll(0, 0, 5000) == -1 && errno == EINTR && came == 5);
  CHECK(pthread_kill(pthread_self(), 0) == 0);
  raise(SIGUSR2);
  CHECK(came == 6);
  pid_t k = fork();
  if (k == 0) {
    pthread_create(&t, 0, idle, 0);
    pthread_join(t, 0);
    _exit(7);
  }
  int st;
  CHECK(waitpid(k, &st, 0) == k && WEXITSTATUS(st) == 7);
  printf("fork ok\n");
  char *av[] = {"sh", "-c", "exit 5", 0};
  CHECK(posix_spawn(&k, "/bin/sh", 0, 0, av, environ) == 0 && waitpid(k, &st, 0) == k &&
        WEXITSTATUS(st) == 5);
  CHECK(WEXITSTATUS(system("exit 3")) == 3);
  FILE *f = popen("echo hi", "r");
  char buf[10] = "";
  CHECK(fgets(buf, 10, f) && !strcmp(buf, "hi\n"));
  pclose(f);
  k = vfork();
  if (k == 0) {
    execl("/bin/true", "true", (char *)0);
    _exit(1);
  }
  CHECK(waitpid(k, &st, 0) == k && WEXITSTATUS(st) == 0);
  printf("spawn ok\n");
  for (int i = 0; i < 4; i++)
    pthread_create(&t, 0, spin, 0);
  usleep(50000);
  setitimer(ITIMER_REAL, &it, 0);
  CHECK(poll(0, 0, 5000) == -1 && came == 7);
  printf("beside spinners ok\n");
  printf("all ok\n");
  exit(0);
}
