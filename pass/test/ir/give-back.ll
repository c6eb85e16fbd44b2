; Loops that may leave early, but not soon, are charged as a whole: on the way out they give back what
; was too much.
; RUN: CURTAIL_PASS=bound=600 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=kind=flag,bound=600 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s --check-prefix=FLAG
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"

; What fits runs as it was. Two cases of the switch
; lead to the same exit, and are one way out; the one that ends in a panic gives nothing back.
; CHECK-LABEL: define i64 @parse(
; CHECK: icmp ult i64
; CHECK: br i1 %{{.*}}, label %curtail.cut, label %curtail.fits
; CHECK: loop:
; CHECK-NEXT: %i = phi i64 [ 0, %curtail.fits ], [ %next, %more ]
; CHECK: switch i32 %value, label %more [
; CHECK-NEXT: i32 1, label %[[OUT:curtail.early[0-9]*]]
; CHECK-NEXT: i32 2, label %[[OUT]]
; CHECK-NEXT: i32 3, label %panic
; CHECK: more:
; CHECK: br i1 %done, label %exit, label %loop
; The copy leaves too, and gives back what is left of its chunk.
; CHECK: {{^}}curtail.early:
; CHECK-NEXT: sub i64 [[END:%[0-9]+]], %i.curtail
; CHECK: br label %found
; The way to go divided by six: halved, and times the inverse of three.
; CHECK: {{^}}[[OUT]]:
; CHECK-NEXT: sub i64 6000000, %i
; CHECK-NEXT: [[WAY:%.*]] = sub i64 %{{.*}}, 6
; CHECK-NEXT: [[HALF:%.*]] = lshr i64 [[WAY]], 1
; CHECK-NEXT: [[THIRD:%.*]] = mul i64 [[HALF]], -6148914691236517205
; CHECK-NEXT: [[LEFT:%.*]] = and i64 [[THIRD]], 9223372036854775807
; CHECK-NEXT: [[WORK:%.*]] = mul i64 [[LEFT]], 22
; CHECK-NEXT: call align 64 ptr @llvm.threadlocal.address
; CHECK-NEXT: [[HAD:%.*]] = load i64, ptr
; CHECK-NEXT: [[HAS:%.*]] = add i64 [[HAD]], [[WORK]]
; CHECK-NEXT: call align 64 ptr @llvm.threadlocal.address
; CHECK-NEXT: store i64 [[HAS]], ptr
; CHECK-NEXT: br label %found
; CHECK: curtail.run:
; CHECK-NEXT: phi i64
; CHECK-NEXT: [[END]] = phi i64
; CHECK: more.curtail:
; The counter is hidden from code generation, which would have others count along.
; CHECK: [[NEXT:%.*]] = call i64 asm sideeffect "", "=r,0"(i64 %next.curtail)
; CHECK-NEXT: icmp eq i64 [[NEXT]], [[END]]
; FLAG-LABEL: define i64 @parse(
; FLAG-NOT: curtail.early
; FLAG: ret i64
declare void @abort() noreturn
define i64 @parse(ptr %p) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %at = getelementptr i32, ptr %p, i64 %i
  %value = load i32, ptr %at
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  switch i32 %value, label %more [
    i32 1, label %found
    i32 2, label %found
    i32 3, label %panic
  ], !prof !0
more:
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  %next = add i64 %i, 6
  %done = icmp eq i64 %next, 6000000
  br i1 %done, label %exit, label %loop
found:
  %where = phi i64 [ %i, %loop ], [ %i, %loop ]
  ret i64 %where
panic:
  call void @abort()
  unreachable
exit:
  ret i64 -1
}

; Short bodies, which mostly leave soon, are gated.
; CHECK-LABEL: define i64 @soon(
; CHECK-NOT: curtail.early
; CHECK: ret i64
define i64 @soon(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %at = getelementptr i32, ptr %p, i64 %i
  %value = load i32, ptr %at
  %is = icmp eq i32 %value, 0
  br i1 %is, label %found, label %more
more:
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
found:
  ret i64 %i
exit:
  ret i64 -1
}

; What copies much looks at the clock itself: then the budget is no longer what was charged.
; CHECK-LABEL: define i64 @copies(
; CHECK-NOT: curtail.early
; CHECK: ret i64
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define i64 @copies(ptr %p, ptr %q, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %at = getelementptr i32, ptr %p, i64 %i
  %value = load i32, ptr %at
  %size = zext i32 %value to i64
  call void @llvm.memcpy.p0.p0.i64(ptr %q, ptr %p, i64 %size, i1 false)
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  %is = icmp eq i32 %value, 7
  br i1 %is, label %found, label %more, !prof !1
more:
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
found:
  ret i64 %i
exit:
  ret i64 -1
}

; Who says when a search is to end may say anything.
; CHECK-LABEL: define i64 @search(
; CHECK: icmp ugt i64 %{{.*}}, 4294967296
; CHECK-NEXT: select i1 %{{.*}}, i64 4611686018427387904, i64
; CHECK: curtail.early
; CHECK: ret i64
define i64 @search(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %at = getelementptr i32, ptr %p, i64 %i
  %value = load i32, ptr %at
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  store volatile i32 %value, ptr %p
  %is = icmp eq i32 %value, 7
  br i1 %is, label %found, label %more, !prof !1
more:
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
found:
  ret i64 %i
exit:
  ret i64 -1
}

; A count that nobody means, with or without other ways out: its work fits into no budget.
; CHECK-LABEL: define void @endless(
; CHECK: icmp ult i64 %{{.*}}, 46116860184273879
; CHECK: curtail.next:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
define void @endless(ptr %p) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %p
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 9223372036854775807
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

!0 = !{!"branch_weights", i32 1000, i32 1, i32 1, i32 0}
!1 = !{!"branch_weights", i32 1, i32 1000}
