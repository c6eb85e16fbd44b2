// See lib.rs. Compiled like any C++ of an application: its loop has safepoints when that is
// instrumented, and its std::mutex is the ordinary one.
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>

struct kv_probe {
  std::mutex mutex;
  uint64_t taken = 0;
};

// Work that the compiler cannot shorten.
static uint64_t turn(uint64_t turns, uint64_t x) {
  for (uint64_t i = 0; i < turns; i++) x = (x ^ (x >> 29)) * 0x9E3779B97F4A7C15u + i;
  return x;
}

extern "C" {

kv_probe *kv_probe_new() noexcept { return new (std::nothrow) kv_probe; }

void kv_probe_free(kv_probe *probe) noexcept { delete probe; }

uint64_t kv_probe_work(uint64_t turns, uint64_t seed) noexcept { return turn(turns, seed); }

void kv_probe_hold(kv_probe *probe, const std::atomic<uint64_t> *clock, uint64_t turns,
                   uint64_t *inside, uint64_t *after) noexcept {
  probe->mutex.lock();
  const uint64_t before = clock->load(std::memory_order_relaxed);
  const uint64_t taken = probe->taken;
  // The odd number can only be told from zero by doing the work.
  probe->taken = taken + 1 + (turn(turns, taken) == 0);
  *inside = clock->load(std::memory_order_relaxed) - before;
  probe->mutex.unlock();
  *after = clock->load(std::memory_order_relaxed) - before;
}

uint64_t kv_probe_taken(kv_probe *probe) noexcept {
  std::lock_guard<std::mutex> lock(probe->mutex);
  return probe->taken;
}

// Throws `id`, and works in the handler, where `pause` is called in between: others throw and catch
// on this thread meanwhile. The answer: what is caught at last, thrown again by nobody's name.
int kv_probe_catch(int id, void (*pause)()) noexcept {
  try {
    try {
      throw id;
    } catch (int inner) {
      pause();
      if (inner != id || std::uncaught_exceptions() != 0) return -1;
      throw;
    }
  } catch (int outer) {
    pause();
    return outer;
  } catch (...) {
    return -2;
  }
}

void kv_probe_throw() { throw std::runtime_error("nobody catches this"); }

}  // extern "C"
