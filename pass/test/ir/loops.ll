; Loops: every cycle has a safepoint, except those that are provably short.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

declare void @unseen()

; A tight loop whose end cannot be computed keeps the budget in a register: loaded before, a phi
; within, stored behind.
; CHECK-LABEL: define void @tight(
; CHECK: entry:
; CHECK: load i64, ptr %{{.*}}, align 8
; CHECK: loop:
; CHECK: [[BUDGET:%.*]] = phi i64
; CHECK-NOT: {{threadlocal|TPOFF}}
; CHECK: [[LEFT:%.*]] = sub nsw i64 [[BUDGET]], [[#]]
; CHECK-NEXT: [[DUE:%.*]] = icmp slt i64 [[LEFT]], 0
; CHECK-NEXT: br i1 [[DUE]]
; CHECK: store i64 [[LEFT]], ptr
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
; CHECK: load i64, ptr
; CHECK: store i64 {{%.*}}, ptr
; CHECK: ret void
define void @tight(ptr %p) {
entry:
  br label %loop
loop:
  %at = phi ptr [ %p, %entry ], [ %next, %loop ]
  %next = load ptr, ptr %at
  %done = icmp eq ptr %next, null
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; CHECK-LABEL: define void @constant_and_small(
; CHECK-NOT: curtail_safepoint
; CHECK: ret void
define void @constant_and_small(ptr %p) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %p, i64 %i
  store i64 %i, ptr %at
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 8
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; CHECK-LABEL: define void @constant_but_long(
; CHECK: ret void
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
define void @constant_but_long(ptr %p) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %p, i64 %i
  store i64 %i, ptr %at
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 800
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; A loop with a call in it charges memory: no register would survive the call.
; CHECK-LABEL: define void @calls(
; CHECK: loop:
; CHECK: call i8 asm sideeffect "subq $${{[0-9]+}}, %fs:curtail_safepoint@TPOFF($1)"
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
; CHECK: call void @unseen()
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret void
define void @calls(ptr %p) {
entry:
  br label %loop
loop:
  call void @unseen()
  %done = load volatile i1, ptr %p
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; One budget for a whole nest: it is not handed over through memory at the inner loop's ends. Each iteration of the
; outer loop passes the inner one's safepoint, and needs no other.
; CHECK-LABEL: define void @nest(
; CHECK: outer:
; CHECK: phi i64
; CHECK-NOT: sub nsw i64
; CHECK: inner:
; CHECK: sub nsw i64
; CHECK: exit.curtail.out:
; CHECK-NEXT: call {{.*}}@llvm.threadlocal.address
define void @nest(ptr %p) {
entry:
  br label %outer
outer:
  %row = phi ptr [ %p, %entry ], [ %row.next, %latch ]
  br label %inner
inner:
  %at = phi ptr [ %row, %outer ], [ %next, %inner ]
  %next = load ptr, ptr %at
  %j.done = icmp eq ptr %next, null
  br i1 %j.done, label %latch, label %inner
latch:
  %slot = getelementptr ptr, ptr %row, i64 1
  %row.next = load ptr, ptr %slot
  %i.done = icmp eq ptr %row.next, null
  br i1 %i.done, label %exit, label %outer
exit:
  ret void
}

; A cycle with two entries is no natural loop, and needs a safepoint all the same.
; CHECK-LABEL: define void @irreducible(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
; CHECK: ret void
define void @irreducible(i1 %first, ptr %p) {
entry:
  br i1 %first, label %one, label %two
one:
  store volatile i64 1, ptr %p
  %a = load volatile i1, ptr %p
  br i1 %a, label %two, label %exit
two:
  store volatile i64 2, ptr %p
  br label %one
exit:
  ret void
}

; CHECK-LABEL: define void @forever(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
define void @forever(ptr %p) {
entry:
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; Each iteration waits for the one before: a chain of a multiplication and an addition, longer than its
; instructions. The safepoint charges that, too.
; CHECK-LABEL: define double @waits(
; CHECK: loop:
; CHECK: sub nsw i64 {{%.*}}, {{[6-9][0-9]$}}
; CHECK-LABEL: define double @runs(
; CHECK: loop:
; CHECK: sub nsw i64 {{%.*}}, {{1[0-9]$}}
; CHECK: ret double
define double @waits(double %a, double %b) {
entry:
  br label %loop
loop:
  %x = phi double [ 1.0, %entry ], [ %sum, %loop ]
  %product = fmul double %x, %a
  %sum = fadd double %product, %b
  %done = fcmp ogt double %sum, 1.0e9
  br i1 %done, label %exit, label %loop
exit:
  ret double %sum
}

define double @runs(ptr %p, double %b) {
entry:
  br label %loop
loop:
  %a = load volatile double, ptr %p
  %product = fmul double %b, %a
  %sum = fadd double %product, %b
  %done = fcmp ogt double %sum, 1.0e9
  br i1 %done, label %exit, label %loop
exit:
  ret double %sum
}
