// Hot calls through virtual functions and function pointers: tiny callees, several implementations at
// each call site, so that nothing is inlined.
#include "../suite.h"
#include <memory>
#include <vector>

namespace {

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
  virtual void grow(double by) = 0;
  virtual bool covers(double x, double y) const = 0;
};

struct Circle final : Shape {
  double r;
  explicit Circle(double r) : r(r) {}
  double area() const override { return 3.14159265 * r * r; }
  void grow(double by) override { r *= by; }
  bool covers(double x, double y) const override { return x * x + y * y <= r * r; }
};

struct Box final : Shape {
  double w, h;
  Box(double w, double h) : w(w), h(h) {}
  double area() const override { return w * h; }
  void grow(double by) override { w *= by, h *= by; }
  bool covers(double x, double y) const override { return fabs(x) <= w / 2 && fabs(y) <= h / 2; }
};

struct Polygon final : Shape {
  std::vector<double> x, y;
  explicit Polygon(int corners) {
    for (int i = 0; i < corners; i++) {
      x.push_back(cos(6.2831853 * i / corners));
      y.push_back(sin(6.2831853 * i / corners));
    }
  }
  double area() const override {
    double sum = 0.0;
    for (size_t i = 0, j = x.size() - 1; i < x.size(); j = i++)
      sum += x[j] * y[i] - x[i] * y[j];
    return sum / 2;
  }
  void grow(double by) override {
    for (size_t i = 0; i < x.size(); i++)
      x[i] *= by, y[i] *= by;
  }
  bool covers(double px, double py) const override {
    bool inside = false;
    for (size_t i = 0, j = x.size() - 1; i < x.size(); j = i++)
      if ((y[i] > py) != (y[j] > py) && px < (x[j] - x[i]) * (py - y[i]) / (y[j] - y[i]) + x[i])
        inside = !inside;
    return inside;
  }
};

uint64_t add(uint64_t a, uint64_t b) { return a + b; }
uint64_t multiply(uint64_t a, uint64_t b) { return a * (b | 1); }
uint64_t twist(uint64_t a, uint64_t b) { return (a << 7 | a >> 57) ^ b; }
uint64_t pick(uint64_t a, uint64_t b) { return a & 1 ? a : b; }

uint64_t pointers(uint64_t seed, int n) {
  uint64_t (*const table[])(uint64_t, uint64_t) = {add, multiply, twist, pick};
  uint64_t value = seed;
  for (int i = 0; i < n; i++)
    value = table[(value >> 11) % 4](value, static_cast<uint64_t>(i));
  return value;
}

} // namespace

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 30000), sum = 0;
  std::vector<std::unique_ptr<Shape>> shapes;
  for (int i = 0; i < 1000; i++) {
    switch (suite_below(3)) {
    case 0: shapes.push_back(std::make_unique<Circle>(suite_unit())); break;
    case 1: shapes.push_back(std::make_unique<Box>(suite_unit(), suite_unit())); break;
    default: shapes.push_back(std::make_unique<Polygon>(3 + static_cast<int>(suite_below(5))));
    }
  }
  for (uint64_t r = 0; r < rounds; r++) {
    double total = 0.0, by = r % 2 ? 1.25 : 0.8, x = suite_unit(), y = suite_unit();
    uint64_t hits = 0;
    for (auto &shape : shapes) {
      shape->grow(by);
      total += shape->area();
      hits += shape->covers(x, y);
    }
    sum = suite_mix_double(suite_mix(sum, hits), total);
    sum = suite_mix(sum, pointers(sum, 5000));
  }
  return suite_end(sum);
}
