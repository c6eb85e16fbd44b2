/* A machine with sixteen registers, for programs that are arrays of words. */
#ifndef VM_H
#define VM_H
#include <stddef.h>
#include <stdint.h>

enum op {
  HALT,
  SET,
  ADD,
  SUB,
  MUL,
  XOR,
  SHIFT,
  LOAD,
  STORE,
  LESS,
  EQUAL,
  JUMP,
  BRANCH,
  CALL,
  RETURN
};

struct instruction {
  uint8_t op, to, a, b;
  int32_t immediate;
};

struct vm {
  uint64_t registers[16];
  uint64_t memory[1024];
  uint32_t stack[256];
  uint32_t depth;
};

/* Runs a program from its first instruction to HALT, or for at most `limit` instructions; returns how
 * many it executed. */
uint64_t vm_run(struct vm *vm, const struct instruction *program, uint64_t limit);
#endif
