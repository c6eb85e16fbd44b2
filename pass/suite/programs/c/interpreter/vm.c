#include "vm.h"

uint64_t vm_run(struct vm *vm, const struct instruction *program, uint64_t limit) {
  uint64_t *r = vm->registers, executed = 0;
  const struct instruction *at = program;
  while (executed < limit) {
    const struct instruction i = *at++;
    executed++;
    switch ((enum op)i.op) {
    case HALT: return executed;
    case SET: r[i.to] = (uint64_t)(int64_t)i.immediate; break;
    case ADD: r[i.to] = r[i.a] + r[i.b] + (uint64_t)(int64_t)i.immediate; break;
    case SUB: r[i.to] = r[i.a] - r[i.b]; break;
    case MUL: r[i.to] = r[i.a] * r[i.b]; break;
    case XOR: r[i.to] = r[i.a] ^ r[i.b]; break;
    case SHIFT: r[i.to] = i.immediate < 0 ? r[i.a] >> -i.immediate : r[i.a] << i.immediate; break;
    case LOAD: r[i.to] = vm->memory[(r[i.a] + (uint64_t)(int64_t)i.immediate) % 1024]; break;
    case STORE: vm->memory[(r[i.a] + (uint64_t)(int64_t)i.immediate) % 1024] = r[i.b]; break;
    case LESS: r[i.to] = r[i.a] < r[i.b]; break;
    case EQUAL: r[i.to] = r[i.a] == r[i.b]; break;
    case JUMP: at += i.immediate; break;
    case BRANCH:
      if (r[i.a] != 0)
        at += i.immediate;
      break;
    case CALL:
      vm->stack[vm->depth++ % 256] = (uint32_t)(at - program);
      at = program + i.immediate;
      break;
    case RETURN: at = program + vm->stack[--vm->depth % 256]; break;
    }
  }
  return executed;
}
