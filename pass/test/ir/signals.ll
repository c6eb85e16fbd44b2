; Signal handlers that the module shows: no safepoints in them, and the depth raised while they call
; what may have some. By every way their addresses go.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

@action = internal constant { ptr, [18 x i64] } { ptr @by_constant, [18 x i64] zeroinitializer }
declare ptr @signal(i32, ptr)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare void @unseen(i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; CHECK-LABEL: define void @by_signal(
; CHECK: [[OLD:%.*]] = load volatile i32
; CHECK: add i32 [[OLD]], 1
; CHECK-NOT: curtail_safepoint_slow
; CHECK: call void @unseen(
; CHECK: add i32 {{.*}}, -1
; CHECK: ret void
define void @by_signal(i32 %n) {
  br label %loop
loop:
  %i = phi i32 [ 0, %0 ], [ %i1, %loop ]
  %i1 = add i32 %i, 3
  store volatile i32 %i, ptr @count
  %c = icmp eq i32 %i1, %n
  br i1 %c, label %out, label %loop
out:
  call void @unseen(i32 %n)
  ret void
}
@count = global i32 0

; CHECK-LABEL: define void @by_constant(
; CHECK: add i32 {{.*}}, 1
; CHECK-NEXT: store volatile
; CHECK-NEXT: call void @unseen(
; CHECK: add i32 {{.*}}, -1
; CHECK: ret void
define void @by_constant(i32 %n) {
  call void @unseen(i32 %n)
  ret void
}

; CHECK-LABEL: define void @by_store(
; CHECK: add i32 {{.*}}, 1
; CHECK-NEXT: store volatile
; CHECK-NEXT: call void @unseen(
; CHECK: add i32 {{.*}}, -1
; CHECK: ret void
define void @by_store(i32 %n) {
  call void @unseen(i32 %n)
  ret void
}

; CHECK-LABEL: define void @by_number(
; CHECK: add i32 {{.*}}, 1
; CHECK-NEXT: store volatile
; CHECK-NEXT: call void @unseen(
; CHECK: add i32 {{.*}}, -1
; CHECK: ret void
define void @by_number(i32 %n) {
  call void @unseen(i32 %n)
  ret void
}

; CHECK-LABEL: define void @by_argument(
; CHECK: add i32 {{.*}}, 1
; CHECK-NEXT: store volatile
; CHECK-NEXT: call void @unseen(
; CHECK: add i32 {{.*}}, -1
; CHECK: ret void
define void @by_argument(i32 %n) {
  call void @unseen(i32 %n)
  ret void
}

; CHECK-LABEL: define void @by_select(
; CHECK: add i32 {{.*}}, 1
; CHECK-NEXT: store volatile
; CHECK-NEXT: call void @unseen(
; CHECK: add i32 {{.*}}, -1
; CHECK: ret void
define void @by_select(i32 %n) {
  call void @unseen(i32 %n)
  ret void
}

; CHECK-LABEL: define void @by_copy(
; CHECK: add i32 {{.*}}, 1
; CHECK-NEXT: store volatile
; CHECK-NEXT: call void @unseen(
; CHECK: add i32 {{.*}}, -1
; CHECK: ret void
define void @by_copy(i32 %n) {
  call void @unseen(i32 %n)
  ret void
}

; CHECK-LABEL: define void @by_variable(
; CHECK: add i32 {{.*}}, 1
; CHECK-NEXT: store volatile
; CHECK-NEXT: call void @unseen(
; CHECK: add i32 {{.*}}, -1
; CHECK: ret void
define void @by_variable(i32 %n) {
  call void @unseen(i32 %n)
  ret void
}

; A thread's function is none.
; CHECK-LABEL: define ptr @thread(
; CHECK-NOT: add i32
; CHECK: ret ptr
define ptr @thread(ptr %p) {
  call void @unseen(i32 1)
  ret ptr %p
}

define internal void @install(i32 %s, ptr %h) {
  %1 = call ptr @signal(i32 %s, ptr %h)
  ret void
}

define void @main(i1 %c, ptr %t) {
  %sa = alloca { ptr, [18 x i64] }
  %sb = alloca { ptr, [18 x i64] }
  %sc = alloca { ptr, [18 x i64] }
  %v = alloca ptr
  %1 = call ptr @signal(i32 1, ptr @by_signal)
  %2 = call i32 @sigaction(i32 2, ptr @action, ptr null)
  %mask = getelementptr i8, ptr %sa, i64 8
  store ptr @thread, ptr %mask
  store ptr @by_store, ptr %sa
  %3 = call i32 @sigaction(i32 3, ptr %sa, ptr null)
  store i64 ptrtoint (ptr @by_number to i64), ptr %sb
  %4 = call i32 @sigaction(i32 4, ptr %sb, ptr null)
  call void @install(i32 5, ptr @by_argument)
  %h = select i1 %c, ptr @by_select, ptr null
  %5 = call ptr @signal(i32 6, ptr %h)
  call void @llvm.memcpy.p0.p0.i64(ptr %sc, ptr @other, i64 152, i1 false)
  %6 = call i32 @sigaction(i32 7, ptr %sc, ptr null)
  store ptr @by_variable, ptr %v
  %l = load ptr, ptr %v
  %7 = call ptr @signal(i32 8, ptr %l)
  %8 = call i32 @sigaction(i32 9, ptr null, ptr %sa)
  %9 = call ptr @signal(i32 10, ptr inttoptr (i64 1 to ptr))
  %10 = call i32 @sigaction(i32 11, ptr undef, ptr null)
  %11 = call i32 @pthread_create(ptr %t, ptr null, ptr @thread, ptr null)
  %12 = call i32 @sigaction(i32 9, ptr null, ptr %sa)
  ret void
}
@other = internal constant { ptr, [18 x i64] } { ptr @by_copy, [18 x i64] zeroinitializer }
