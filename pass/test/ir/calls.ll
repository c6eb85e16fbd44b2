; Calls: recursion, tail calls, exceptions, setjmp.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

declare void @unseen(ptr)
declare i32 @__gxx_personality_v0(...)
declare i32 @_setjmp(ptr) returns_twice

; A recursive function has one on the way to its own calls, and none where it ends.
; CHECK-LABEL: define i64 @fib(
; CHECK: icmp slt i64 %n, 2
; CHECK: base:
; CHECK-NOT: curtail_safepoint
; CHECK: more:
; CHECK: call i8 asm sideeffect "subq $${{[0-9]+}}, %fs:curtail_safepoint@TPOFF($1)"
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
; CHECK: call i64 @fib(
; CHECK: ret i64
define i64 @fib(i64 %n) noinline {
  %small = icmp slt i64 %n, 2
  br i1 %small, label %base, label %more
base:
  ret i64 %n
more:
  %a = add i64 %n, -1
  %b = add i64 %n, -2
  %x = call i64 @fib(i64 %a)
  %y = call i64 @fib(i64 %b)
  %z = add i64 %x, %y
  ret i64 %z
}

; Where a loop's safepoint lies on the way to the recursive call, the entry needs none.
; CHECK-LABEL: define void @tree(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: loop:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret void
define void @tree(ptr %t) noinline {
entry:
  br label %loop
loop:
  %at = phi ptr [ %t, %entry ], [ %right, %loop ]
  %left = load ptr, ptr %at
  call void @tree(ptr %left)
  %slot = getelementptr ptr, ptr %at, i64 1
  %right = load ptr, ptr %slot
  %done = icmp eq ptr %right, null
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; Mutual recursion too, in each of the functions.
; CHECK-LABEL: define i64 @even(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
; CHECK-LABEL: define i64 @odd(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
define i64 @even(i64 %n) {
  %zero = icmp eq i64 %n, 0
  br i1 %zero, label %base, label %more
base:
  ret i64 1
more:
  %a = add i64 %n, -1
  %x = call i64 @odd(i64 %a)
  ret i64 %x
}
define i64 @odd(i64 %n) {
  %zero = icmp eq i64 %n, 0
  br i1 %zero, label %base, label %more
base:
  ret i64 0
more:
  %a = add i64 %n, -1
  %x = call i64 @even(i64 %a)
  ret i64 %x
}

; Nothing comes between a musttail call and its return.
; CHECK-LABEL: define void @must_tail(
; CHECK: musttail call void @must_tail(
; CHECK-NEXT: ret void
define void @must_tail(ptr %p) {
  store volatile i64 1, ptr %p
  musttail call void @must_tail(ptr %p)
  ret void
}

; Nor after a call that may become a jump.
; CHECK-LABEL: define void @tail(
; CHECK: tail call void @unseen(
; CHECK-NEXT: ret void
define void @tail(ptr %p, i64 %x, i64 %y) {
  %1 = sdiv i64 %x, %y
  %2 = sdiv i64 %1, %y
  %3 = sdiv i64 %2, %y
  %4 = sdiv i64 %3, %y
  %5 = sdiv i64 %4, %y
  %6 = sdiv i64 %5, %y
  %7 = sdiv i64 %6, %y
  store i64 %7, ptr %p
  tail call void @unseen(ptr %p)
  ret void
}

; Landing pads that clean up and go on unwinding carry none.
; CHECK-LABEL: define void @cleans_up(
; CHECK: landingpad
; CHECK-NOT: curtail_safepoint_slow
; CHECK: resume
define void @cleans_up(ptr %p) personality ptr @__gxx_personality_v0 {
  invoke void @unseen(ptr %p) to label %fine unwind label %pad
fine:
  ret void
pad:
  %e = landingpad { ptr, i32 } cleanup
  call void @unseen(ptr %p)
  call void @unseen(ptr %p)
  call void @unseen(ptr %p)
  call void @unseen(ptr %p)
  call void @unseen(ptr %p)
  resume { ptr, i32 } %e
}

; Where setjmp may return twice no budget lives in a register.
; CHECK-LABEL: define void @jumps(
; CHECK: loop:
; CHECK-NOT: phi i64 {{.*}}curtail
; CHECK: call i8 asm sideeffect "subq $${{[0-9]+}}, %fs:curtail_safepoint@TPOFF($1)"
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
define void @jumps(ptr %p, i64 %n) {
entry:
  %r = call i32 @_setjmp(ptr %p) returns_twice
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}
