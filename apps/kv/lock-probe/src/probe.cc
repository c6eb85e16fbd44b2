// See lib.rs. Compiled like any C++ of an application: its loop has safepoints when that is
// instrumented, and its locks are the ordinary ones.
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <stdexcept>

namespace {

// pthread's spin lock, as C++ takes locks.
struct SpinLock {
  pthread_spinlock_t spin;
  SpinLock() { pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE); }
  ~SpinLock() { pthread_spin_destroy(&spin); }
  void lock() { pthread_spin_lock(&spin); }
  void unlock() { pthread_spin_unlock(&spin); }
};

// Twice, as only such a mutex can be.
struct Recursive {
  std::recursive_mutex mutex;
  void lock() { mutex.lock(), mutex.lock(); }
  void unlock() { mutex.unlock(), mutex.unlock(); }
};

struct Timed {
  std::timed_mutex mutex;
  void lock() {
    while (!mutex.try_lock_for(std::chrono::hours(1))) {
    }
  }
  void unlock() { mutex.unlock(); }
};

struct Tried {
  std::shared_timed_mutex mutex;
  void lock() {
    while (!mutex.try_lock())
      sched_yield();
  }
  void unlock() { mutex.unlock(); }
};

}  // namespace

struct kv_probe {
  std::mutex mutex;
  Recursive recursive;
  Timed timed;
  std::shared_mutex shared;
  Tried tried;
  SpinLock spin;
  // Under the lock of the same number.
  uint64_t taken[6] = {};

  std::mutex turns;
  std::condition_variable changed;
  uint64_t turn = 0;
};

// Work that the compiler cannot shorten.
static uint64_t turn(uint64_t turns, uint64_t x) {
  for (uint64_t i = 0; i < turns; i++)
    x = (x ^ (x >> 29)) * 0x9E3779B97F4A7C15u + i;
  return x;
}

extern "C" {

kv_probe *kv_probe_new() noexcept { return new (std::nothrow) kv_probe; }

void kv_probe_free(kv_probe *probe) noexcept { delete probe; }

uint64_t kv_probe_work(uint64_t turns, uint64_t seed) noexcept { return turn(turns, seed); }

uint64_t kv_probe_taken(kv_probe *probe, uint32_t kind) noexcept { return probe->taken[kind]; }

// A reader: what it reads does not change meanwhile.
bool kv_probe_read(kv_probe *probe, uint64_t turns) noexcept {
  std::shared_lock<std::shared_mutex> lock(probe->shared);
  const uint64_t taken = probe->taken[3];
  return (turn(turns, taken) != 0) & (probe->taken[3] == taken);
}

// Waits for turn number `mine`, works, and passes the turn on.
void kv_probe_turn(kv_probe *probe, uint64_t mine, uint64_t turns) noexcept {
  std::unique_lock<std::mutex> lock(probe->turns);
  probe->changed.wait(lock, [&] { return probe->turn == mine; });
  probe->turn += 1 + (turn(turns, mine) == 0);
  lock.unlock();
  probe->changed.notify_all();
}

void kv_probe_hold(kv_probe *probe, uint32_t kind, const std::atomic<uint64_t> *clock,
                   uint64_t turns, uint64_t *inside, uint64_t *after) noexcept {
  const auto with = [&](auto &lock) {
    lock.lock();
    const uint64_t before = clock->load(std::memory_order_relaxed);
    const uint64_t taken = probe->taken[kind];
    // The odd number can only be told from zero by doing the work.
    probe->taken[kind] = taken + 1 + (turn(turns, taken) == 0);
    *inside = clock->load(std::memory_order_relaxed) - before;
    lock.unlock();
    *after = clock->load(std::memory_order_relaxed) - before;
  };
  switch (kind) {
  case 0: return with(probe->mutex);
  case 1: return with(probe->recursive);
  case 2: return with(probe->timed);
  case 3: return with(probe->shared);
  case 4: return with(probe->tried);
  default: return with(probe->spin);
  }
}

// What a function-local static is initialised with; `pause` runs meanwhile, and others come here.
uint64_t kv_probe_static(uint64_t (*pause)()) noexcept {
  static const uint64_t value = pause();
  return value;
}

// Throws `id`, and works in the handler, where `pause` is called in between: others throw and catch
// on this thread meanwhile. The answer: what is caught last, after a `throw` without an operand.
int kv_probe_catch(int id, void (*pause)()) noexcept {
  try {
    try {
      throw id;
    } catch (int inner) {
      pause();
      if (inner != id || std::uncaught_exceptions() != 0)
        return -1;
      throw;
    }
  } catch (int outer) {
    pause();
    return outer;
  } catch (...) {
    return -2;
  }
}

void kv_probe_throw() { throw std::runtime_error("no handler catches this"); }

} // extern "C"
