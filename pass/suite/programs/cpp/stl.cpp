// The standard library's algorithms and containers, as application code uses them: vectors of strings,
// unordered_map, priority_queue, deque, sort with lambdas, binary search, transformations.
#include "../suite.h"
#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <numeric>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

std::vector<std::string> words(size_t n) {
  std::vector<std::string> all(n);
  for (auto &word : all) {
    size_t length = 2 + suite_below(18);
    for (size_t i = 0; i < length; i++)
      word += static_cast<char>('a' + suite_below(6));
  }
  return all;
}

uint64_t strings(size_t n) {
  auto all = words(n);
  std::unordered_map<std::string, uint32_t> counts;
  for (auto &word : all)
    counts[word.substr(0, 4)]++;
  std::sort(all.begin(), all.end());
  uint64_t sum = std::unique(all.begin(), all.end()) - all.begin();
  for (auto &word : all)
    if (auto found = counts.find(word); found != counts.end())
      sum += found->second;
  std::sort(all.begin(), all.end(), [](const std::string &a, const std::string &b) {
    return a.size() != b.size() ? a.size() < b.size() : a > b;
  });
  for (size_t i = 0; i < all.size(); i += 5)
    sum = suite_mix(sum, all[i].size() << 8 | static_cast<unsigned char>(all[i].back()));
  return sum;
}

uint64_t events(size_t n) {
  using Event = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue;
  std::deque<uint32_t> waiting;
  for (uint32_t i = 0; i < n; i++)
    queue.push({suite_below(1000), i});
  uint64_t sum = 0;
  for (size_t step = 0; step < 4 * n; step++) {
    auto [time, id] = queue.top();
    queue.pop();
    if ((id + time) % 3 == 0)
      waiting.push_back(id);
    else if (!waiting.empty()) {
      queue.push({time + 1 + waiting.front() % 7, waiting.front()});
      waiting.pop_front();
    }
    queue.push({time + 5 + suite_below(50), id});
    sum = suite_mix(sum, time + id);
  }
  return sum;
}

uint64_t numbers(size_t n) {
  std::vector<uint32_t> v(n), at(n);
  std::generate(v.begin(), v.end(), [] { return static_cast<uint32_t>(suite_random() >> 33); });
  std::iota(at.begin(), at.end(), 0u);
  std::sort(at.begin(), at.end(), [&v](uint32_t a, uint32_t b) { return v[a] < v[b]; });
  std::vector<uint32_t> sorted(n);
  std::transform(at.begin(), at.end(), sorted.begin(), [&v](uint32_t i) { return v[i]; });
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += std::upper_bound(sorted.begin(), sorted.end(), v[i] / 2) - sorted.begin();
  std::vector<uint32_t> kept;
  std::copy_if(v.begin(), v.end(), std::back_inserter(kept), [](uint32_t x) { return x % 3 == 1; });
  sum = suite_mix(sum, std::accumulate(kept.begin(), kept.end(), uint64_t{0}));
  std::rotate(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(n / 3), v.end());
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(n / 2), v.end());
  return suite_mix(sum, v[n / 2]);
}

} // namespace

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 10), sum = 0;
  for (uint64_t r = 0; r < rounds; r++)
    for (size_t n : {12, 400, 20000})
      for (size_t repeat = 0; repeat < 40000 / n; repeat++) {
        sum = suite_mix(sum, strings(n));
        sum = suite_mix(sum, events(n));
        sum = suite_mix(sum, numbers(n));
      }
  return suite_end(sum);
}
