; Thread-local addresses that the optimiser took before a loop do not keep safepoints out of it, where
; they are not held.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=bound=200,migratable=warn opt -passes=curtail-safepoints -S < %s 2>/dev/null | FileCheck %s --check-prefix=MIGRATABLE
; RUN: opt -passes=curtail-keep-out -S < %s | FileCheck %s --check-prefix=EARLY

@mine = thread_local(localexec) global i64 0
@other = thread_local(localexec) global i64 0
@far = external thread_local global i64
@_ZSt15__once_callable = external thread_local(initialexec) global ptr
@"_RNvNCNKNvNvMNtNtCsjrHSEGnQ3l9_3std4hash6randomNtBa_11RandomState3new4KEYS0s_023___RUST_STD_INTERNAL_VAL" = internal thread_local(localexec) global i64 0
declare nonnull ptr @llvm.threadlocal.address.p0(ptr nonnull)
declare i32 @pthread_once(ptr, ptr) nounwind
declare void @uses(ptr)
declare ptr @_ZTW3far()

; Only read: it is taken anew, behind the safepoint. Not in code that may go on on another thread.
; CHECK-LABEL: define i64 @only_read(
; CHECK: call void asm sideeffect "call *curtail_safepoint_slow
; CHECK: {{%.*}} = call ptr @llvm.threadlocal.address.p0(ptr @mine)
; CHECK-NEXT: {{%.*}} = getelementptr
; CHECK-NEXT: load volatile
; CHECK: ret i64
; MIGRATABLE-LABEL: define i64 @only_read(
; MIGRATABLE-NOT: curtail_safepoint_slow
; MIGRATABLE: {{^[}]}}
define i64 @only_read(i64 %n) {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  %q = getelementptr i8, ptr %p, i64 4
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %v = load volatile i64, ptr %q
  %next = add i64 %i, %v
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret i64 %next
}

; Where it takes a call to take it, it is left as it is.
; CHECK-LABEL: define i64 @dear(
; CHECK: call ptr @llvm.threadlocal.address.p0(ptr @far)
; CHECK-NEXT: br label %loop
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define i64 @dear(i64 %n) {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @far)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %v = load volatile i64, ptr %p
  %next = add i64 %i, %v
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret i64 %next
}

; Written, and each store named it when the program was compiled.
; CHECK-LABEL: define void @named(
; CHECK: curtail_safepoint_slow
; CHECK: {{^[}]}}
define void @named(i64 %n) {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %p, !curtail.names-thread-local !0
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; One of them did not.
; CHECK-LABEL: define void @half_named(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define void @half_named(i64 %n) {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %p, !curtail.names-thread-local !0
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  store i64 0, ptr %p
  ret void
}

; Handed to another function.
; CHECK-LABEL: define void @handed_on(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define void @handed_on(i64 %n) {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %p, !curtail.names-thread-local !0
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  call void @uses(ptr %p)
  ret void
}

; A counter that the optimiser keeps in a register: what others count meanwhile would be lost.
; CHECK-LABEL: define void @in_flight(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define void @in_flight(i64 %n, ptr %to) {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  %old = load i64, ptr %p
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %count = phi i64 [ %old, %entry ], [ %more, %loop ]
  store volatile i64 %i, ptr %to
  %more = add i64 %count, 2
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  store i64 %more, ptr %p, !curtail.names-thread-local !0
  ret void
}

; Nothing is lost of a variable that was read for another use, or written with what came from another.
; CHECK-LABEL: define i64 @landed(
; CHECK: curtail_safepoint_slow
; CHECK: {{^[}]}}
define i64 @landed(i64 %n, ptr %to) {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  %q = call ptr @llvm.threadlocal.address.p0(ptr @other)
  %old = load i64, ptr %p
  %more = add i64 %old, 1
  store i64 %more, ptr %p, !curtail.names-thread-local !0
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %to
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  store i64 %old, ptr %q, !curtail.names-thread-local !0
  store i64 7, ptr %p, !curtail.names-thread-local !0
  ret i64 %more
}

; The keys of the standard library's hash maps.
; CHECK-LABEL: define void @maps(
; CHECK: curtail_safepoint_slow
; CHECK: {{^[}]}}
define void @maps(i64 %n) {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @"_RNvNCNKNvNvMNtNtCsjrHSEGnQ3l9_3std4hash6randomNtBa_11RandomState3new4KEYS0s_023___RUST_STD_INTERNAL_VAL")
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

; std::call_once: what is handed over is in use until pthread_once has run, and no longer.
; CHECK-LABEL: define void @once(
; CHECK: curtail_safepoint_slow
; CHECK: call ptr @llvm.threadlocal.address.p0(ptr @_ZSt15__once_callable)
; CHECK: add i32 {{%.*}}, 1
; CHECK-NOT: curtail_safepoint_slow
; CHECK: call i32 @pthread_once(
; CHECK: add i32 {{%.*}}, -1
; CHECK: ret void
define void @once(i64 %n, ptr %flag, ptr %routine) {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @_ZSt15__once_callable)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %after ]
  store ptr %flag, ptr %p
  %e = call i32 @pthread_once(ptr %flag, ptr %routine)
  br label %after
after:
  store ptr null, ptr %p
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; What is noted early: stores through the variable's name, of which C++ may make a call; not those
; through a pointer that was kept.
; EARLY-LABEL: define i64 @names(
; EARLY: store i64 %a, ptr %q, align {{.*}}!curtail.names-thread-local
; EARLY: store i64 %b, ptr %w, align {{.*}}!curtail.names-thread-local
; EARLY-NOT: names-thread-local
; EARLY: ret i64
define i64 @names(ptr %kept) {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  %a = load i64, ptr %p
  %q = getelementptr i8, ptr %p, i64 4
  store i64 %a, ptr %q
  %w = call ptr @_ZTW3far()
  %b = add i64 %a, 1
  store i64 %b, ptr %w
  store ptr %p, ptr %kept
  %r = load ptr, ptr %kept
  store i64 %b, ptr %r
  ret i64 %b
}

!llvm.module.flags = !{!1}
!0 = !{}
!1 = !{i32 8, !"PIC Level", i32 2}
