; No yield while the address of a thread-local variable is live; none while a function-local static
; is being initialised.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

@mine = thread_local(localexec) global i64 0
@guard = internal global i64 0
declare nonnull ptr @llvm.threadlocal.address.p0(ptr nonnull)
declare void @unseen()
declare void @uses(ptr)
declare i32 @__gxx_personality_v0(...)
declare i32 @__cxa_guard_acquire(ptr) nounwind
declare void @__cxa_guard_release(ptr) nounwind

; The address is live around the whole loop: none in it.
; CHECK-LABEL: define void @live_in_loop(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define void @live_in_loop(i64 %n) {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %p
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; Taken anew in each iteration, it is dead at the top of the loop: there the safepoint goes.
; CHECK-LABEL: define void @dead_at_top(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret void
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
; CHECK: %p.curtail = call ptr @llvm.threadlocal.address.p0(ptr @mine)
; CHECK-NOT: curtail_safepoint_slow
define void @dead_at_top(i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  store volatile i64 %i, ptr %p
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; A call in between runs with the depth raised, and lowers it when an exception leaves the function by it.
; CHECK-LABEL: define void @held_over_call() {{.*}}personality ptr @__gxx_personality_v0
; CHECK: [[UP:%.*]] = getelementptr inbounds i8, ptr {{%.*}}, i64 12
; CHECK: add i32 {{%.*}}, 1
; CHECK: invoke void @unseen()
; CHECK-NEXT: unwind label %[[PAD:.*]]
; CHECK: add i32 {{%.*}}, -1
; CHECK: ret void
; CHECK: [[PAD]]:
; CHECK-NEXT: landingpad
; CHECK-NEXT: cleanup
; CHECK: add i32 {{%.*}}, -1
; CHECK: resume
define void @held_over_call() {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  call void @unseen()
  store i64 1, ptr %p
  ret void
}

; No exception leaves it: a call as before.
; CHECK-LABEL: define void @held_over_quiet_call(
; CHECK: add i32 {{%.*}}, 1
; CHECK: call void @unseen()
; CHECK: add i32 {{%.*}}, -1
; CHECK-NOT: landingpad
; CHECK: {{^[}]}}
define void @held_over_quiet_call() {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  call void @unseen() nounwind
  store i64 1, ptr %p
  ret void
}
; CHECK-LABEL: define void @quiet(
; CHECK: call void @unseen()
; CHECK-NOT: landingpad
; CHECK: {{^[}]}}
define void @quiet() nounwind {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  call void @unseen()
  store i64 1, ptr %p
  ret void
}

; So does one that is handed the address, through a GEP and a phi.
; CHECK-LABEL: define void @handed_on(
; CHECK: add i32 {{%.*}}, 1
; CHECK: invoke void @uses(
; CHECK: add i32 {{%.*}}, -1
; CHECK: ret void
define void @handed_on(i1 %c, ptr %other) {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  br i1 %c, label %a, label %b
a:
  %q = getelementptr i8, ptr %p, i64 4
  br label %b
b:
  %r = phi ptr [ %other, %entry ], [ %q, %a ]
  call void @uses(ptr %r)
  ret void
}

; On a path that never returns, too: what is called may yield all the same.
; CHECK-LABEL: define void @held_to_the_end(
; CHECK: add i32 {{.*}}, 1
; CHECK: invoke void @uses(
; CHECK: add i32 {{.*}}, -1
; CHECK: unreachable
define void @held_to_the_end() {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  call void @uses(ptr %p)
  unreachable
}

; Nothing is raised for a call when the address is dead.
; CHECK-LABEL: define void @dead_over_call(
; CHECK-NOT: add i32
; CHECK: ret void
define void @dead_over_call() {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  store i64 1, ptr %p
  call void @unseen()
  ret void
}

; An invoke lowers it on both ways out, and on a shared landing pad only for itself.
; CHECK-LABEL: define void @held_over_invoke(
; CHECK: add i32 {{%.*}}, 1
; CHECK: invoke void @unseen()
; CHECK: add i32 {{%.*}}, -1
; CHECK: landingpad
; CHECK: add i32 {{%.*}}, -1
; CHECK: landingpad
; CHECK-NOT: add i32
; CHECK: resume
define void @held_over_invoke() personality ptr @__gxx_personality_v0 {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  invoke void @unseen() to label %then unwind label %pad
then:
  store i64 1, ptr %p
  invoke void @unseen() to label %fine unwind label %pad
fine:
  ret void
pad:
  %e = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %e
}

; CHECK-LABEL: define void @static_local(
; CHECK: [[WON:%.*]] = call i32 @__cxa_guard_acquire(ptr @guard)
; CHECK: [[YES:%.*]] = icmp ne i32 [[WON]], 0
; CHECK: [[BY:%.*]] = zext i1 [[YES]] to i32
; CHECK: add i32 {{%.*}}, [[BY]]
; CHECK: call void @__cxa_guard_release(ptr @guard)
; CHECK: add i32 {{%.*}}, -1
; CHECK: ret void
define void @static_local() {
  %won = call i32 @__cxa_guard_acquire(ptr @guard)
  %yes = icmp eq i32 %won, 0
  br i1 %yes, label %done, label %make
make:
  call void @unseen()
  call void @__cxa_guard_release(ptr @guard)
  br label %done
done:
  ret void
}
