; Calls that never return make no recursion: no safepoint on the way to them.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

@text = external global i8
declare void @leave() noreturn
declare void @unseen()
declare i32 @__gxx_personality_v0(...)

; An error's handling calls what the error came from. Together they have nine members, too many to choose from.
; CHECK-LABEL: define i64 @require(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define i64 @require(i64 %n, i64 %most) noinline {
  %bad = icmp ugt i64 %n, %most
  br i1 %bad, label %error, label %fine
error:
  call void @fail(i64 %n)
  unreachable
fine:
  %m = add i64 %n, 1
  ret i64 %m
}

define internal void @fail(i64 %n) noreturn noinline {
  %r = call i64 @e1(i64 %n)
  call void @leave()
  unreachable
}
define i64 @e1(i64 %n) noinline {
  %a = call i64 @e2(i64 %n)
  %b = call i64 @require(i64 %a, i64 9)
  ret i64 %b
}
define i64 @e2(i64 %n) noinline {
  %a = call i64 @e3(i64 %n)
  ret i64 %a
}
define i64 @e3(i64 %n) noinline {
  %a = call i64 @e4(i64 %n)
  ret i64 %a
}
define i64 @e4(i64 %n) noinline {
  %a = call i64 @e5(i64 %n)
  ret i64 %a
}
define i64 @e5(i64 %n) noinline {
  %a = call i64 @e6(i64 %n)
  ret i64 %a
}
define i64 @e6(i64 %n) noinline {
  %a = call i64 @e7(i64 %n)
  ret i64 %a
}
; CHECK-LABEL: define i64 @e7(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define i64 @e7(i64 %n) noinline {
  %a = call i64 @require(i64 %n, i64 7)
  ret i64 %a
}

; A recursion that others of its calls make has a safepoint before these.
; CHECK-LABEL: define i64 @walk(
; CHECK: {{^deeper:}}
; CHECK-NEXT: asm sideeffect "subq
; CHECK: call i64 @walk(
; CHECK: {{^[}]}}
define i64 @walk(i64 %n) noinline {
  switch i64 %n, label %deeper [ i64 0, label %end
                                 i64 77, label %error ]
error:
  %x = call i64 @walk(i64 1)
  call void @leave()
  unreachable
deeper:
  %less = sub i64 %n, 1
  %r = call i64 @walk(i64 %less)
  %s = mul i64 %r, 3
  ret i64 %s
end:
  ret i64 1
}

; The call that never returns makes no tree of a list: what is behind the other is short, or has a
; safepoint. Divisions, 20 units each.
; CHECK-LABEL: define i64 @list(
; CHECK: call i64 @list(
; CHECK: asm sideeffect "subq
; CHECK: {{^[}]}}
define i64 @list(ptr %node, i64 %y) noinline {
  %end = icmp eq ptr %node, null
  br i1 %end, label %done, label %more
more:
  %next = load ptr, ptr %node
  %r = call i64 @list(ptr %next, i64 %y)
  %bad = icmp eq i64 %r, 77
  br i1 %bad, label %error, label %fine
error:
  %x = call i64 @list(ptr null, i64 %y)
  call void @leave()
  unreachable
fine:
  %s = udiv i64 %r, %y
  %t = udiv i64 %s, %y
  ret i64 %t
done:
  ret i64 %y
}

; An exception leaves the function from such a call.
; CHECK-LABEL: define i64 @throws(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define i64 @throws(i64 %n) noinline personality ptr @__gxx_personality_v0 {
  %bad = icmp ugt i64 %n, 7
  br i1 %bad, label %error, label %fine
error:
  invoke void @thrown(i64 %n) to label %never unwind label %pad
never:
  unreachable
pad:
  %e = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %e
fine:
  %m = add i64 %n, 1
  ret i64 %m
}
; CHECK-LABEL: define internal void @thrown(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define internal void @thrown(i64 %n) noinline {
  %r = call i64 @throws(i64 %n)
  ret void
}

; What a landing pad calls comes back to it: a recursion as any other.
; CHECK-LABEL: define void @destroys(
; CHECK: asm sideeffect "subq
; CHECK: {{^[}]}}
define void @destroys(i64 %n) noinline personality ptr @__gxx_personality_v0 {
  invoke void @unseen() to label %fine unwind label %pad
fine:
  ret void
pad:
  %e = landingpad { ptr, i32 } cleanup
  call void @cleans(i64 %n)
  resume { ptr, i32 } %e
}
define internal void @cleans(i64 %n) noinline {
  call void @destroys(i64 %n)
  ret void
}

; Only called from there: it has its safepoints.
; CHECK-LABEL: define internal void @tell(
; CHECK: curtail_safepoint_slow
; CHECK: {{^[}]}}
define internal void @tell(i64 %n) noinline {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %v = load volatile i8, ptr @text
  %z = zext i8 %v to i64
  %next = add i64 %i, %z
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}
define void @dies(i64 %n) {
  call void @tell(i64 %n)
  call void @leave()
  unreachable
}
