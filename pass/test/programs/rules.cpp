// Places where nothing may yield, each with calls of instrumented code in it. Every safepoint of this
// program fires; the hook notes those that come where `inside` names such a place. Prints one line a
// place: its name, and how often it yielded there. Outside of them it must yield.
#include "curtail_safepoint.h"
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <threads.h>
#include <unistd.h>

static const char *volatile inside = "";
static volatile unsigned outside_count, inside_count;
static volatile unsigned sink;

extern "C" CURTAIL_NO_SAFEPOINT void hook(curtail_safepoint_block *b) {
  if (*inside)
    inside_count = inside_count + 1;
  else
    outside_count = outside_count + 1;
  curtail_safepoint_arm(b, CURTAIL_CLOCK, 0, 0);
}

// Many safepoints.
__attribute__((noinline)) static void work() {
  for (unsigned i = 0; i < 2000; i++)
    sink = sink * 3 + i;
}

CURTAIL_NO_SAFEPOINT static void report(const char *place) {
  char line[80];
  int n = std::snprintf(line, sizeof line, "%s: %u\n", place, inside_count);
  inside_count = 0;
  if (write(1, line, n) != n)
    _exit(9);
}

static void at_place(const char *place) {
  inside = place;
  work();
  inside = "";
}

// Runs before all other initialisers.
__attribute__((constructor(101))) CURTAIL_NO_SAFEPOINT static void arm() {
  curtail_safepoint_block *b = curtail_safepoint_self();
  b->yield = hook;
  curtail_safepoint_arm(b, CURTAIL_CLOCK, 0, 0);
}

__attribute__((constructor)) static void by_attribute() { at_place("constructor"); }

struct Global {
  Global() { at_place("static initialiser"); }
  ~Global() { at_place("destructor at exit"); report("destructor at exit"); }
} global;

static void *allocate(std::size_t size) {
  at_place("operator new");
  return std::malloc(size);
}
void *operator new(std::size_t size) { return allocate(size); }
void operator delete(void *p) noexcept { at_place("operator delete"); std::free(p); }
void operator delete(void *p, std::size_t) noexcept { operator delete(p); }

struct Pooled {
  static void *operator new(std::size_t size) { at_place("class operator new"); return std::malloc(size); }
  static void operator delete(void *p) { std::free(p); }
  long field = 1;
};

static void handler(int) { at_place("signal handler"); }
static void other_handler(int, siginfo_t *, void *) { at_place("sigaction handler"); }

struct Local {
  Local() { at_place("static of a function"); }
};
__attribute__((noinline)) static void local() { static Local it; }

static once_flag flag = ONCE_FLAG_INIT;
static void once() { at_place("call_once"); }

static void at_exit() { at_place("atexit"); report("atexit"); }

CURTAIL_NO_PREEMPT static void marked() { at_place("marked"); }

int main() {
  report("constructor, static initialiser");
  work();
  if (outside_count < 10) {
    std::puts("does not fire");
    return 1;
  }
  delete new long(outside_count);
  report("operator new and delete");
  delete new Pooled;
  report("class operator new");
  std::signal(SIGUSR1, handler);
  raise(SIGUSR1);
  report("signal handler");
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_sigaction = other_handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGUSR2, &action, nullptr);
  raise(SIGUSR2);
  report("sigaction handler");
  local();
  report("static of a function");
  call_once(&flag, once);
  report("call_once");
  marked();
  report("marked");
  unsigned before = outside_count;
  work();
  // No section was left open.
  std::printf("depth %u, fires %d\n", curtail_safepoint_self()->critical, outside_count > before + 10);
  std::fflush(stdout);
  std::atexit(at_exit);
  std::exit(0);
}
