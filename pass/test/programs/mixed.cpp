// What C++ adds: exceptions (also rethrown and through frames with clean-ups), function-local
// statics, thread-locals with constructors, virtual calls, containers, threads.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};
struct Square : Shape {
  double side;
  explicit Square(double s) : side(s) {}
  double area() const override { return side * side; }
};
struct Disc : Shape {
  double radius;
  explicit Disc(double r) : radius(r) {}
  double area() const override { return 3.0 * radius * radius; }
};

static int cleaned = 0;
struct Cleaner {
  ~Cleaner() { cleaned++; }
};

static int risky(int n) {
  Cleaner cleaner;
  if (n % 3 == 0)
    throw std::runtime_error("three");
  if (n % 5 == 0)
    throw n;
  return n;
}

static long exceptions(int rounds) {
  long sum = 0;
  for (int i = 0; i < rounds; i++) {
    try {
      try {
        sum += risky(i);
      } catch (const std::exception &e) {
        sum += e.what()[0];
        if (i % 2)
          throw;
      }
    } catch (int n) {
      sum -= n;
    } catch (...) {
      sum += 1000;
    }
  }
  return sum;
}

static const std::vector<int> &primes() {
  static const std::vector<int> table = [] {
    std::vector<int> found;
    for (int n = 2; found.size() < 500; n++)
      if (std::none_of(found.begin(), found.end(), [n](int p) { return n % p == 0; }))
        found.push_back(n);
    return found;
  }();
  return table;
}

static int failing() {
  static int tries = 0;
  struct Once {
    Once() {
      if (++tries < 3)
        throw std::logic_error("not yet");
    }
  };
  for (;;) {
    try {
      static Once once;
      return tries;
    } catch (const std::logic_error &) {
    }
  }
}

thread_local std::string scratch = "start";
static size_t locals(int n) {
  for (int i = 0; i < n; i++) {
    scratch += static_cast<char>('a' + i % 26);
    if (scratch.size() > 200)
      scratch.erase(0, 150);
  }
  return std::hash<size_t>()(scratch.size()) + static_cast<unsigned char>(scratch.back());
}

int main() {
  std::printf("exceptions %ld %d\n", exceptions(3000), cleaned);
  std::printf("primes %d\n", primes().back());
  std::printf("failing %d\n", failing());
  std::printf("locals %zu\n", locals(100000));

  std::vector<std::unique_ptr<Shape>> shapes;
  for (int i = 0; i < 5000; i++) {
    if (i % 2)
      shapes.push_back(std::make_unique<Square>(i));
    else
      shapes.push_back(std::make_unique<Disc>(i));
  }
  double area = 0;
  for (int round = 0; round < 20; round++)
    for (const auto &shape : shapes)
      area += shape->area();
  std::printf("area %.1f\n", area);

  std::map<std::string, int> words;
  for (int i = 0; i < 20000; i++)
    words["word" + std::to_string(i * 7919 % 1000)] += i;
  std::printf("words %zu %d\n", words.size(), words["word42"]);

  std::vector<uint64_t> results(3);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); t++)
    threads.emplace_back([&results, t] {
      uint64_t x = t + 1;
      for (int i = 0; i < 200000; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
      results[t] = x;
    });
  for (auto &thread : threads)
    thread.join();
  for (uint64_t result : results)
    std::printf("thread %llu\n", static_cast<unsigned long long>(result));
}
