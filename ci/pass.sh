#!/usr/bin/env bash
# The compiler pass: built, and its tests, with FileCheck and with whole programs.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
need_llvm || skip "no LLVM of rustc's major"
need "/usr/lib/llvm-$llvm/lib/clang/$llvm/lib/linux/libclang_rt.asan-x86_64.a=libclang-rt-$llvm-dev" ||
  say "no libclang-rt-$llvm-dev: the sanitizers are not tried"
need gdb=gdb || say "no gdb: whether a debugger finds its way through a safepoint is not tried"
plain_release
pass/build.sh "$release"
build_native
pass/test.sh "$release"

say "random programs, the same every time (./x fuzz runs others)"
"$release/curtail-fuzz" --source own --from 1 --count 5
"$release/curtail-fuzz" --source ir --from 1 --count 6
