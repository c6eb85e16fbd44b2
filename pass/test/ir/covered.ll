; A loop needs no safepoint of its own if each iteration passes one: what it calls has one on each way through it,
; or a loop inside has one.
; RUN: CURTAIL_PASS=bound=600 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s

define internal void @always(ptr %p) noinline {
entry:
  br label %loop
loop:
  %it = load volatile i64, ptr %p
  %done = icmp eq i64 %it, 0
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

define internal void @mostly(ptr %p) noinline {
entry:
  %none = load volatile i1, ptr %p
  br i1 %none, label %exit, label %loop
loop:
  %it = load volatile i64, ptr %p
  %done = icmp eq i64 %it, 0
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; CHECK-LABEL: define void @by_call(
; CHECK-NOT: curtail_safepoint
; CHECK: ret void
define void @by_call(ptr %p) {
entry:
  br label %loop
loop:
  call void @always(ptr %p)
  %done = load volatile i1, ptr %p
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; Counted, it is not cut either.
; CHECK-LABEL: define void @counted(
; CHECK-NOT: curtail
; CHECK: ret void
define void @counted(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %p, i64 %i
  call void @always(ptr %at)
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; What may return without a safepoint is not enough.
; CHECK-LABEL: define void @by_chance(
; CHECK: loop:
; CHECK: curtail_safepoint_slow
; CHECK: ret void
define void @by_chance(ptr %p) {
entry:
  br label %loop
loop:
  call void @mostly(ptr %p)
  %done = load volatile i1, ptr %p
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; Nor is a call on one of two ways.
; CHECK-LABEL: define void @on_one_way(
; CHECK: loop:
; CHECK: curtail_safepoint_slow
; CHECK: ret void
define void @on_one_way(ptr %p) {
entry:
  br label %loop
loop:
  %rest = load volatile i1, ptr %p
  br i1 %rest, label %call, label %latch
call:
  call void @always(ptr %p)
  br label %latch
latch:
  %done = load volatile i1, ptr %p
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; The inner loop's, which runs at least once.
; CHECK-LABEL: define void @around(
; CHECK: outer:
; CHECK-NOT: curtail_safepoint
; CHECK: inner:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret void
declare void @unseen()
define void @around(ptr %p) {
entry:
  br label %outer
outer:
  %rest = load volatile i1, ptr %p
  br label %inner
inner:
  call void @unseen()
  %more = load volatile i1, ptr %p
  br i1 %more, label %inner, label %latch
latch:
  %done = load volatile i1, ptr %p
  br i1 %done, label %exit, label %outer
exit:
  ret void
}

; The inner loop's would be rarer behind the test that ends it, but then the outer one had none.
; CHECK-LABEL: define void @stays(
; CHECK: inner:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: more:
; CHECK: ret void
define void @stays(ptr %p) {
entry:
  br label %outer
outer:
  %rest = load volatile i1, ptr %p
  br label %inner
inner:
  %found = load volatile i1, ptr %p
  br i1 %found, label %latch, label %more, !prof !0
more:
  call void @unseen()
  %again = load volatile i1, ptr %p
  br i1 %again, label %inner, label %latch
latch:
  %done = load volatile i1, ptr %p
  br i1 %done, label %exit, label %outer
exit:
  ret void
}
!0 = !{!"branch_weights", i32 9, i32 1}

; A call that throws may not have come to its safepoint, but who catches has one.
; CHECK-LABEL: define void @catches(
; CHECK: {{^loop:}}
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^pad:}}
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: {{^latch:}}
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret void
declare i32 @__gxx_personality_v0(...)
define void @catches(ptr %p) personality ptr @__gxx_personality_v0 {
entry:
  br label %loop
loop:
  invoke void @always(ptr %p) to label %latch unwind label %pad
pad:
  %caught = landingpad { ptr, i32 } catch ptr null
  br label %latch
latch:
  %done = load volatile i1, ptr %p
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; So does a function that calls, and catches.
; CHECK-LABEL: define void @around_catch(
; CHECK: {{^loop:}}
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret void
define internal void @caught(ptr %p) noinline personality ptr @__gxx_personality_v0 {
entry:
  invoke void @always(ptr %p) to label %exit unwind label %pad
pad:
  %caught = landingpad { ptr, i32 } catch ptr null
  br label %exit
exit:
  ret void
}
define void @around_catch(ptr %p) {
entry:
  br label %loop
loop:
  call void @caught(ptr %p)
  %done = load volatile i1, ptr %p
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; What is called may jump back to here.
; CHECK-LABEL: define void @jumped_to(
; CHECK: loop:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret void
declare i32 @setjmp(ptr) returns_twice
define void @jumped_to(ptr %p, ptr %state) {
entry:
  br label %loop
loop:
  %again = call i32 @setjmp(ptr %state)
  call void @always(ptr %p)
  %done = load volatile i1, ptr %p
  br i1 %done, label %exit, label %loop
exit:
  ret void
}
