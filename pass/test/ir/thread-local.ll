; No yield while a function-local static is being initialised. The address of a thread-local variable is in
; no yield's way: what yields has thread-locals of its own.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

@mine = thread_local(localexec) global i64 0
@guard = internal global i64 0
declare nonnull ptr @llvm.threadlocal.address.p0(ptr nonnull)
declare void @unseen()
declare void @uses(ptr)
declare i32 @__gxx_personality_v0(...)
declare i32 @__cxa_guard_acquire(ptr) nounwind
declare void @__cxa_guard_release(ptr) nounwind

; CHECK-LABEL: define void @live_in_loop(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
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
