; Who catches looks at the budget then. It may have gone round by calls in dead ends, which make no recursion.
; RUN: CURTAIL_PASS=bound=450 opt -passes=curtail-safepoints -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=bound=450 opt -passes=curtail-safepoints,verify -S < %s | llc -filetype=null

@failed = external global ptr
declare void @unseen()
declare i32 @__gxx_personality_v0(...)
declare ptr @__cxa_begin_catch(ptr)
declare void @__cxa_end_catch()
declare void @__cxa_throw() noreturn
declare void @terminate(ptr) noreturn nounwind
declare i32 @_setjmp(ptr) returns_twice
declare void @jump() noreturn

; An exception is work, too.
; CHECK-LABEL: define i64 @evaluate(
; CHECK: {{^caught:}}
; CHECK: call void @__cxa_end_catch()
; CHECK-NEXT: asm sideeffect "subq $$20{{[0-9][0-9]}},
; CHECK: {{^[}]}}
define i64 @evaluate(i64 %depth) noinline personality ptr @__gxx_personality_v0 {
  invoke void @check(i64 %depth) to label %join unwind label %caught
caught:
  %e = landingpad { ptr, i32 } catch ptr null
  %object = extractvalue { ptr, i32 } %e, 0
  %begun = call ptr @__cxa_begin_catch(ptr %object)
  call void @__cxa_end_catch()
  br label %join
join:
  %r = phi i64 [ 1, %0 ], [ 2, %caught ]
  ret i64 %r
}
; CHECK-LABEL: define internal void @check(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define internal void @check(i64 %depth) noinline {
  %bad = icmp sgt i64 %depth, 0
  br i1 %bad, label %error, label %fine
error:
  %less = sub i64 %depth, 1
  %r = call i64 @evaluate(i64 %less)
  call void @__cxa_throw()
  unreachable
fine:
  ret void
}

; What cleans up passes the exception on, to a function that catches it.
; CHECK-LABEL: define i64 @cleans(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define i64 @cleans(i64 %depth) noinline personality ptr @__gxx_personality_v0 {
  invoke void @check(i64 %depth) to label %fine unwind label %pad
pad:
  %e = landingpad { ptr, i32 } cleanup
  store ptr null, ptr @failed
  resume { ptr, i32 } %e
fine:
  ret i64 1
}

; Nor does one that cleans up in a loop catch: the loop's own safepoint is all.
; CHECK-LABEL: define i64 @cleans_many(
; CHECK: {{^pad:}}
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^each:}}
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define i64 @cleans_many(i64 %depth, ptr %p) noinline personality ptr @__gxx_personality_v0 {
  invoke void @check(i64 %depth) to label %fine unwind label %pad
pad:
  %e = landingpad { ptr, i32 } cleanup
  br label %each
each:
  %more = load volatile i1, ptr %p
  br i1 %more, label %each, label %done
done:
  resume { ptr, i32 } %e
fine:
  ret i64 1
}

; What ends the program has none.
; CHECK-LABEL: define i64 @ends(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define i64 @ends(i64 %depth) noinline personality ptr @__gxx_personality_v0 {
  invoke void @check(i64 %depth) to label %fine unwind label %pad
pad:
  %e = landingpad { ptr, i32 } catch ptr null
  %object = extractvalue { ptr, i32 } %e, 0
  call void @terminate(ptr %object)
  unreachable
fine:
  ret i64 1
}

; A jump from afar is caught where setjmp returns.
; CHECK-LABEL: define i64 @tries(
; CHECK: call i32 @_setjmp(
; CHECK-NEXT: asm sideeffect "subq
; CHECK: {{^[}]}}
define i64 @tries(ptr %here, i64 %depth) noinline {
  %jumped = call i32 @_setjmp(ptr %here) returns_twice
  %first = icmp eq i32 %jumped, 0
  br i1 %first, label %try, label %caught
try:
  call void @fails(ptr %here, i64 %depth)
  ret i64 1
caught:
  ret i64 2
}
; CHECK-LABEL: define internal void @fails(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define internal void @fails(ptr %here, i64 %depth) noinline {
  %bad = icmp sgt i64 %depth, 0
  br i1 %bad, label %error, label %fine
error:
  %less = sub i64 %depth, 1
  %r = call i64 @tries(ptr %here, i64 %less)
  call void @jump()
  unreachable
fine:
  ret void
}
