/* An interpreter for a register machine, in a file of its own: one loop around a switch whose trips
 * are unknown in advance. It runs a sieve, a recursive Fibonacci and a generator with a histogram. */
#include "../../suite.h"
#include "vm.h"

/* memory[n] = 1 where n is composite; r1 n, r2 multiple, r3 limit. */
static const struct instruction sieve[] = {
    {SET, 1, 0, 0, 2},   {SET, 3, 0, 0, 1000}, {SET, 5, 0, 0, 1},   {SET, 0, 0, 0, 0},
    {LOAD, 4, 1, 0, 0},  {BRANCH, 0, 4, 0, 7}, {MUL, 2, 1, 1, 0},   {LESS, 4, 2, 3, 0},
    {EQUAL, 4, 4, 0, 0}, {BRANCH, 0, 4, 0, 3}, {STORE, 0, 2, 5, 0}, {ADD, 2, 2, 1, 0},
    {JUMP, 0, 0, 0, -6}, {ADD, 1, 1, 0, 1},    {LESS, 4, 1, 3, 0},  {BRANCH, 0, 4, 0, -12},
    {HALT, 0, 0, 0, 0}};

/* r1: argument and result; r15 points to a stack in memory. */
static const struct instruction fibonacci[] = {
    {SET, 15, 0, 0, 900}, {SET, 0, 0, 0, 0},   {SET, 2, 0, 0, 2},     {CALL, 0, 0, 0, 5},
    {HALT, 0, 0, 0, 0},   {LESS, 3, 1, 2, 0},  {BRANCH, 0, 3, 0, 11}, {ADD, 15, 15, 0, -2},
    {STORE, 0, 15, 1, 0}, {ADD, 1, 1, 0, -1},  {CALL, 0, 0, 0, 5},    {STORE, 0, 15, 1, 1},
    {LOAD, 1, 15, 0, 0},  {ADD, 1, 1, 0, -2},  {CALL, 0, 0, 0, 5},    {LOAD, 4, 15, 0, 1},
    {ADD, 1, 1, 4, 0},    {ADD, 15, 15, 0, 2}, {RETURN, 0, 0, 0, 0}};

/* A generator fills a histogram of 64 cells. */
static const struct instruction histogram[] = {
    {SET, 1, 0, 0, 12345},  {SET, 2, 0, 0, 0},   {SET, 3, 0, 0, 3000},  {SET, 0, 0, 0, 0},
    {SHIFT, 4, 1, 0, 13},   {XOR, 1, 1, 4, 0},   {SHIFT, 4, 1, 0, -7},  {XOR, 1, 1, 4, 0},
    {SHIFT, 4, 1, 0, 17},   {XOR, 1, 1, 4, 0},   {SHIFT, 4, 1, 0, -58}, {LOAD, 5, 4, 0, 0},
    {ADD, 5, 5, 0, 1},      {STORE, 0, 4, 5, 0}, {ADD, 2, 2, 0, 1},     {LESS, 4, 2, 3, 0},
    {BRANCH, 0, 4, 0, -13}, {HALT, 0, 0, 0, 0}};

static uint64_t digest(uint64_t sum, const struct vm *vm, uint64_t executed) {
  for (int i = 0; i < 1024; i++)
    sum = suite_mix(sum, vm->memory[i]);
  return suite_mix(sum, executed);
}

int main(int argc, char **argv) {
  static struct vm vm;
  uint64_t rounds = suite_rounds(argc, argv, 9000), sum = 0;
  for (uint64_t r = 0; r < rounds; r++) {
    memset(&vm, 0, sizeof vm);
    sum = digest(sum, &vm, vm_run(&vm, sieve, 1000000));
    vm.registers[1] = 10 + r % 8;
    sum = suite_mix(sum, vm_run(&vm, fibonacci, 1000000));
    sum = suite_mix(sum, vm.registers[1]);
    memset(&vm, 0, sizeof vm);
    sum = digest(sum, &vm, vm_run(&vm, histogram, 1000000));
  }
  return suite_end(sum);
}
