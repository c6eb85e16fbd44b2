// Boost.Fiber's fibers: `boost_fiber OP COUNT` prints nanoseconds per operation (README.md). Its
// scheduler is the default one, round robin. Stacks come from a pool, which is the quickest way.
#include <boost/fiber/all.hpp>
#include <boost/fiber/pooled_fixedsize_stack.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

namespace fibers = boost::fibers;

static fibers::pooled_fixedsize_stack stacks;

template <class F>
static fibers::fiber spawn(F f) {
  return fibers::fiber(fibers::launch::post, std::allocator_arg, stacks, std::move(f));
}

// Runs f(0) and f(1) as fibers, to their ends.
template <class F>
static void both(F f) {
  fibers::fiber first = spawn([&f] { f(0); });
  fibers::fiber second = spawn([&f] { f(1); });
  first.join();
  second.join();
}

static void fail(const char *why) {
  std::fprintf(stderr, "%s\n", why);
  std::exit(1);
}

static void lock_and_unlock(long count) {
  fibers::mutex mutex;
  long counter = 0;
  for (long i = 0; i < count; i++) {
    mutex.lock();
    counter++;
    mutex.unlock();
  }
  if (counter != count)
    fail("the counter is wrong");
}

static void yield_in_turns(long count) {
  both([count](int) {
    for (long i = 0; i < count / 2; i++)
      boost::this_fiber::yield();
  });
}

// As yield_in_turns, and counts how often the other one ran in between.
static void check_turns(long count) {
  int last = -1;
  long switches = 0;
  both([&](int me) {
    for (long i = 0; i < count / 2; i++) {
      switches += last != me;
      last = me;
      boost::this_fiber::yield();
    }
  });
  if (switches < count * 9 / 10)
    fail("yields do not switch");
}

static void hand_over(long count) {
  fibers::mutex mutex;
  fibers::condition_variable cond;
  int turn = 0;
  both([&](int me) {
    std::unique_lock<fibers::mutex> lock(mutex);
    for (long i = 0; i < count / 2; i++) {
      while (turn != me)
        cond.wait(lock);
      turn = 1 - turn;
      cond.notify_one();
    }
  });
}

static void spawn_and_join(long count) {
  for (long i = 0; i < count; i++) {
    long result = -1;
    spawn([&result, i] { result = i; }).join();
    if (result != i)
      fail("the result is wrong");
  }
}

int main(int argc, char **argv) {
  long count = argc == 3 ? std::atol(argv[2]) : 0;
  if (count < 20)
    fail("usage: boost_fiber mutex|yield|condvar|spawn_join COUNT (20 or more)");
  void (*run)(long) = nullptr;
  if (!std::strcmp(argv[1], "mutex"))
    run = lock_and_unlock;
  if (!std::strcmp(argv[1], "yield"))
    run = yield_in_turns;
  if (!std::strcmp(argv[1], "condvar"))
    run = hand_over;
  if (!std::strcmp(argv[1], "spawn_join"))
    run = spawn_and_join;
  if (run == nullptr)
    fail("there is no such operation");
  if (run == yield_in_turns)
    check_turns(2000);
  run(count / 10);
  auto start = std::chrono::steady_clock::now();
  run(count);
  std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  std::printf("%.3f\n", took.count() / double(count));
}
