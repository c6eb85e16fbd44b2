; The activations of a recursion that were inlined into one: without loops they may all return in a row, so
; a safepoint comes before the return; in loops, each has its tolerance.
; RUN: CURTAIL_PASS=bound=600 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s

; CHECK-LABEL: define i64 @sum(
; CHECK: call i64 @sum(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i64
define i64 @sum(ptr %p, i64 %x) {
entry:
  %end = icmp eq ptr %p, null
  br i1 %end, label %done, label %more
more:
  %next = load ptr, ptr %p
  %rest = call i64 @sum(ptr %next, i64 %x)
  %place = getelementptr i64, ptr %p, i64 1
  %v = load i64, ptr %place
  %a = xor i64 %rest, %v
  %b = mul i64 %a, %x
  %c = xor i64 %b, %v
  %d = mul i64 %c, %x
  %e = xor i64 %d, %v
  ret i64 %e
done:
  ret i64 %x
}

; CHECK-LABEL: define void @mark(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call void @mark(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret void
define void @mark(ptr %p, i64 %now) {
entry:
  br label %again
again:
  %at = phi ptr [ %p, %entry ], [ %right, %both ]
  %seen = load i64, ptr %at
  %old = icmp eq i64 %seen, %now
  br i1 %old, label %done, label %fresh
fresh:
  store i64 %now, ptr %at
  %place = getelementptr i64, ptr %at, i64 1
  %left = load ptr, ptr %place
  %leaf = icmp eq ptr %left, null
  br i1 %leaf, label %done, label %both
both:
  call void @mark(ptr %left, i64 %now)
  %other = getelementptr i64, ptr %at, i64 2
  %right = load ptr, ptr %other
  %end = icmp eq ptr %right, null
  br i1 %end, label %done, label %again
done:
  ret void
}
