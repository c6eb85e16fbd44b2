; Code that must not yield: no safepoints in it, and the depth raised while it calls what may have some.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @at_start, ptr null }]
@llvm.global_dtors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @at_end, ptr null }]
@text = private constant [19 x i8] c"curtail.no_preempt\00", section "llvm.metadata"
@llvm.global.annotations = appending global [1 x { ptr, ptr, ptr, i32, ptr }] [
  { ptr, ptr, ptr, i32, ptr } { ptr @marked, ptr @text, ptr null, i32 0, ptr null }], section "llvm.metadata"

declare void @unseen(ptr)
declare noalias ptr @malloc(i64)
declare void @exit(i32) noreturn
declare ptr @dlopen(ptr, i32)
declare void @_RNvNtCs1234_3std7process4exit(i32) noreturn
declare void @call_once(ptr, ptr)

; Constructors and destructors by attribute.
; CHECK-LABEL: define void @at_start(
; CHECK: getelementptr inbounds i8, ptr {{.*}}, i64 12
; CHECK: add i32 {{.*}}, 1
; CHECK-NOT: curtail_safepoint_slow
; CHECK: call void @unseen(
; CHECK: add i32 {{.*}}, -1
; CHECK: ret void
define void @at_start(ptr %p, i1 %c) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br i1 %c, label %loop, label %out
out:
  call void @unseen(ptr %p)
  ret void
}

; CHECK-LABEL: define void @at_end(
; CHECK: add i32 {{.*}}, 1
; CHECK-NOT: curtail_safepoint_slow
; CHECK: add i32 {{.*}}, -1
; CHECK: ret void
define void @at_end(ptr %p, i1 %c) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br i1 %c, label %loop, label %out
out:
  call void @unseen(ptr %p)
  ret void
}

; CHECK-LABEL: define void @marked(
; CHECK: add i32 {{.*}}, 1
; CHECK-NOT: curtail_safepoint_slow
; CHECK: add i32 {{.*}}, -1
; CHECK-NEXT: store volatile
; CHECK-NEXT: musttail call void @unseen(
define void @marked(ptr %p) {
  musttail call void @unseen(ptr %p)
  ret void
}

; CHECK-LABEL: define void @by_section(
; CHECK: add i32 {{.*}}, 1
; CHECK: call void @unseen(
; CHECK: add i32 {{.*}}, -1
define void @by_section(ptr %p) section ".text.curtail_no_preempt" {
  call void @unseen(ptr %p)
  ret void
}

; Rust's global allocator, in both manglings, and a class's operator new.
; CHECK-LABEL: define ptr @"_ZN60_$LT$m..Mine$u20$as$u20$core..alloc..global..GlobalAlloc$GT$5alloc17h0123456789abcdefE"(
; CHECK: add i32 {{.*}}, 1
; CHECK-NOT: curtail_safepoint_slow
; CHECK: call void @unseen(
; CHECK: add i32 {{.*}}, -1
; CHECK: ret ptr
define ptr @"_ZN60_$LT$m..Mine$u20$as$u20$core..alloc..global..GlobalAlloc$GT$5alloc17h0123456789abcdefE"(ptr %p, i1 %c) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br i1 %c, label %loop, label %out
out:
  call void @unseen(ptr %p)
  ret ptr %p
}

; CHECK-LABEL: define ptr @_RNvXCs1234_1mNtB2_4MineNtNtNtCs5678_4core5alloc6global11GlobalAlloc5alloc(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret ptr
define ptr @_RNvXCs1234_1mNtB2_4MineNtNtNtCs5678_4core5alloc6global11GlobalAlloc5alloc(ptr %p, i1 %c) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br i1 %c, label %loop, label %out
out:
  ret ptr %p
}

; CHECK-LABEL: define ptr @_ZN2ns4NodenwEm(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret ptr
define ptr @_ZN2ns4NodenwEm(ptr %p, i1 %c) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br i1 %c, label %loop, label %out
out:
  ret ptr %p
}

; Nothing that it calls may yield: nothing is raised.
; CHECK-LABEL: define ptr @_Znwm(
; CHECK-NOT: i32
; CHECK: ret ptr
define ptr @_Znwm(i64 %n) {
  %p = call ptr @malloc(i64 %n)
  %q = call ptr @_ZN2ns4NodenwEm(ptr %p, i1 false)
  ret ptr %q
}

; Libraries that call back while they hold a lock.
; CHECK-LABEL: define void @ends(
; CHECK: add i32 {{.*}}, 1
; CHECK: call void @exit(
define void @ends() {
  call void @exit(i32 0)
  unreachable
}

; CHECK-LABEL: define void @ends_in_rust(
; CHECK: add i32 {{.*}}, 1
; CHECK: call void @_RNvNtCs1234_3std7process4exit(
define void @ends_in_rust() {
  call void @_RNvNtCs1234_3std7process4exit(i32 0)
  unreachable
}

; CHECK-LABEL: define ptr @loads(
; CHECK: add i32 {{.*}}, 1
; CHECK: call ptr @dlopen(
; CHECK: add i32 {{.*}}, -1
; CHECK: add i32 {{.*}}, 1
; CHECK: call void @call_once(
; CHECK: add i32 {{.*}}, -1
; CHECK: ret ptr
define ptr @loads(ptr %name) {
  %l = call ptr @dlopen(ptr %name, i32 1)
  call void @call_once(ptr %name, ptr @at_end)
  ret ptr %l
}
