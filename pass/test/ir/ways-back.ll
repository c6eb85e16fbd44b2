; A loop with calls whose way back is a block of its own has its safepoint there: a run that does not
; go back passes none. Otherwise it is behind the tests that end the loop before the first call, or inner loop.
; Without calls, the header has it.
; RUN: CURTAIL_PASS=bound=400 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s
declare i64 @look(ptr)

; CHECK-LABEL: define internal i64 @retry(
; CHECK: again:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: call i64 @look(
; CHECK: back:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: br label %again
; CHECK: done:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret i64
define internal i64 @retry(ptr %p) {
entry:
  br label %again
again:
  %at = phi ptr [ %p, %entry ], [ %next, %back ]
  %found = call i64 @look(ptr %at)
  %none = icmp eq i64 %found, 0
  br i1 %none, label %back, label %done
back:
  %next = load ptr, ptr %at
  br label %again
done:
  ret i64 %found
}

; CHECK-LABEL: define internal i64 @list(
; CHECK: again:
; CHECK: %at = phi ptr
; CHECK-NEXT: call i8 asm sideeffect "subq
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: volatile
define internal i64 @list(ptr %p) {
entry:
  br label %again
again:
  %at = phi ptr [ %p, %entry ], [ %next, %back ]
  %key = load volatile i64, ptr %at
  %none = icmp eq i64 %key, 0
  br i1 %none, label %back, label %done
back:
  %next = load volatile ptr, ptr %at
  br label %again
done:
  ret i64 %key
}

; The loop of a recursion: its safepoint is behind the tests that end it, before the call.
; CHECK-LABEL: define internal void @mark(
; CHECK: again:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: both:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call void @mark(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret void
define internal void @mark(ptr %p, i64 %now) noinline {
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

; A loop around another, that most iterations come to: behind the tests, before the way to the inner one.
; CHECK-LABEL: define internal i64 @chain(
; CHECK: again:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: more:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: inner:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: back:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret i64
define internal i64 @chain(ptr %p, i64 %key) {
entry:
  br label %again
again:
  %at = phi ptr [ %p, %entry ], [ %next, %back ]
  %seen = load i64, ptr %at
  %hit = icmp eq i64 %seen, %key
  br i1 %hit, label %done, label %more
more:
  %place = getelementptr i64, ptr %at, i64 1
  %first = load ptr, ptr %place
  %none = icmp eq ptr %first, null
  br i1 %none, label %back, label %inner
inner:
  %in = phi ptr [ %first, %more ], [ %after, %inner ]
  %found = call i64 @look(ptr %in)
  %after = load ptr, ptr %in
  %stop = icmp eq i64 %found, 0
  br i1 %stop, label %back, label %inner
back:
  %other = getelementptr i64, ptr %at, i64 2
  %next = load ptr, ptr %other
  %end = icmp eq ptr %next, null
  br i1 %end, label %done, label %again
done:
  ret i64 %seen
}

; From the call round to the loop's end is far: behind the test, there would have to be one more.
; CHECK-LABEL: define i64 @stays(
; CHECK: again:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: more:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: call i64 @look(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret i64
define i64 @stays(ptr %p, i64 %key) noinline {
entry:
  br label %again
again:
  %at = phi ptr [ %p, %entry ], [ %next, %more ]
  %seen = load i64, ptr %at
  %hit = icmp eq i64 %seen, 7
  br i1 %hit, label %done, label %more
more:
  %found = call i64 @look(ptr %at)
  %place = getelementptr i64, ptr %at, i64 %found
  %next = load ptr, ptr %place
  %end = icmp eq ptr %next, null
  br i1 %end, label %none, label %again
done:
  %d1 = sdiv i64 %seen, %key
  %d2 = sdiv i64 %d1, %key
  %d3 = sdiv i64 %d2, %key
  %d4 = sdiv i64 %d3, %key
  %d5 = sdiv i64 %d4, %key
  %d6 = sdiv i64 %d5, %key
  %d7 = sdiv i64 %d6, %key
  %d8 = sdiv i64 %d7, %key
  ret i64 %d8
none:
  ret i64 0
}

define i64 @both(ptr %p) {
  %a = call i64 @retry(ptr %p)
  %b = call i64 @list(ptr %p)
  call void @mark(ptr %p, i64 %a)
  %c = call i64 @chain(ptr %p, i64 %b)
  %d = call i64 @stays(ptr %p, i64 %c)
  %sum = add i64 %a, %d
  ret i64 %sum
}
