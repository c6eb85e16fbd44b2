; Loops: every cycle has a safepoint, except those that are provably short.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

declare void @unseen()

; A tight loop whose end cannot be computed has its safepoint in the header.
; CHECK-LABEL: define void @tight(
; CHECK: loop:
; CHECK: call i8 asm sideeffect "subq $${{[0-9]+}}, %fs:curtail_safepoint@TPOFF($1)"
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
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

; So has a loop with a call in it.
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

; Each iteration of the outer loop passes the inner one's safepoint, and needs no other.
; CHECK-LABEL: define void @nest(
; CHECK: outer:
; CHECK-NOT: TPOFF
; CHECK: inner:
; CHECK: call i8 asm sideeffect "subq $${{[0-9]+}}, %fs:curtail_safepoint@TPOFF($1)"
; CHECK: ret void
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
