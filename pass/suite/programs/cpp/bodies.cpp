// Numbers with short vectors and small matrices as objects: five bodies under gravity, particles in a
// box with neighbour cells, quaternions, Runge-Kutta steps through std::function.
#include "../suite.h"
#include <algorithm>
#include <array>
#include <functional>
#include <vector>

namespace {

struct Vector {
  double x, y, z;
  Vector operator+(const Vector &o) const { return {x + o.x, y + o.y, z + o.z}; }
  Vector operator-(const Vector &o) const { return {x - o.x, y - o.y, z - o.z}; }
  Vector operator*(double f) const { return {x * f, y * f, z * f}; }
  double dot(const Vector &o) const { return x * o.x + y * o.y + z * o.z; }
};

Vector anywhere() { return {suite_unit(), suite_unit(), suite_unit()}; }

template <size_t N> uint64_t gravity(int steps) {
  std::array<Vector, N> place, speed;
  std::array<double, N> mass;
  for (size_t i = 0; i < N; i++) {
    place[i] = anywhere() * 10.0;
    speed[i] = anywhere() - Vector{0.5, 0.5, 0.5};
    mass[i] = 0.1 + suite_unit();
  }
  for (int s = 0; s < steps; s++) {
    for (size_t i = 0; i < N; i++)
      for (size_t j = i + 1; j < N; j++) {
        Vector d = place[i] - place[j];
        double square = d.dot(d) + 0.01, pull = 0.001 / (square * sqrt(square));
        speed[i] = speed[i] - d * (mass[j] * pull);
        speed[j] = speed[j] + d * (mass[i] * pull);
      }
    for (size_t i = 0; i < N; i++)
      place[i] = place[i] + speed[i] * 0.001;
  }
  return suite_mix_double(0, place[0].dot(place[N - 1]));
}

uint64_t cells(int particles, int steps) {
  constexpr int SIDE = 12;
  std::vector<Vector> place(static_cast<size_t>(particles)), push(place.size());
  for (auto &p : place)
    p = anywhere();
  std::vector<std::vector<uint32_t>> grid(SIDE * SIDE);
  auto cell = [](double v) { return std::min(SIDE - 1, std::max(0, static_cast<int>(v * SIDE))); };
  uint64_t contacts = 0;
  for (int s = 0; s < steps; s++) {
    for (auto &list : grid)
      list.clear();
    for (uint32_t i = 0; i < place.size(); i++)
      grid[static_cast<size_t>(cell(place[i].x) * SIDE + cell(place[i].y))].push_back(i);
    for (uint32_t i = 0; i < place.size(); i++) {
      push[i] = {0, 0, 0};
      int cx = cell(place[i].x), cy = cell(place[i].y);
      for (int gx = std::max(0, cx - 1); gx <= std::min(SIDE - 1, cx + 1); gx++)
        for (int gy = std::max(0, cy - 1); gy <= std::min(SIDE - 1, cy + 1); gy++)
          for (uint32_t j : grid[static_cast<size_t>(gx * SIDE + gy)]) {
            Vector d = place[i] - place[j];
            double square = d.dot(d);
            if (j == i || square > 0.003)
              continue;
            contacts++;
            push[i] = push[i] + d * (0.003 - square);
          }
    }
    for (size_t i = 0; i < place.size(); i++)
      place[i] = place[i] + push[i];
  }
  return suite_mix_double(contacts, place[0].x);
}

uint64_t orbits(const std::function<Vector(const Vector &, double)> &field, int steps) {
  Vector at = anywhere();
  double t = 0.0, h = 0.01;
  for (int s = 0; s < steps; s++, t += h) {
    Vector a = field(at, t), b = field(at + a * (h / 2), t + h / 2);
    Vector c = field(at + b * (h / 2), t + h / 2), d = field(at + c * h, t + h);
    at = at + (a + b * 2.0 + c * 2.0 + d) * (h / 6);
  }
  return suite_mix_double(0, at.x + at.y + at.z);
}

} // namespace

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 720), sum = 0;
  for (uint64_t r = 0; r < rounds; r++) {
    sum = suite_mix(sum, gravity<5>(5000));
    sum = suite_mix(sum, gravity<40>(80));
    sum = suite_mix(sum, cells(700, 6));
    sum = suite_mix(sum, orbits(
                             [](const Vector &p, double) {
                               return Vector{10 * (p.y - p.x), p.x * (28 - p.z) - p.y,
                                             p.x * p.y - 8.0 / 3 * p.z};
                             },
                             2000));
    sum = suite_mix(
        sum, orbits([](const Vector &p, double t) { return Vector{-p.y, p.x, t} * 0.1; }, 2000));
  }
  return suite_end(sum);
}
