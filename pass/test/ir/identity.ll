; What tells waiters apart by thread is made to tell fibers apart.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

@_RNvNCNKNvNvNtNtNtCs1234_3std4sync4mpmc5waker17current_thread_id5DUMMY0s_023___RUST_STD_INTERNAL_VAL = external thread_local global i8
@"_ZN16parking_lot_core11parking_lot16with_thread_data11THREAD_DATA29_$u7b$$u7b$constant$u7d$$u7d$28_$u7b$$u7b$closure$u7d$$u7d$23__RUST_STD_INTERNAL_VAL17h0123456789abcdefE" = external thread_local global <{ [4 x i8], [1 x i8], [3 x i8] }>, align 8
@other = external thread_local global i8

; CHECK: [[GONE:@.*]] = private constant [8 x i8] c"\02\02\02\02\02\02\02\02", align 8

; CHECK-LABEL: define ptr @channel_id(
; CHECK-NOT: {{threadlocal|TPOFF}}
; CHECK: [[ID:%.*]] = call ptr @llvm.frameaddress.p0(i32 0)
; CHECK: ret ptr [[ID]]
define ptr @channel_id() {
  %id = call ptr @llvm.threadlocal.address.p0(ptr @_RNvNCNKNvNvNtNtNtCs1234_3std4sync4mpmc5waker17current_thread_id5DUMMY0s_023___RUST_STD_INTERNAL_VAL)
  ret ptr %id
}

; CHECK-LABEL: define ptr @queue_entry(
; CHECK-NOT: {{threadlocal|TPOFF}}
; CHECK: ret ptr [[GONE]]
define ptr @queue_entry() {
  %entry = call ptr @llvm.threadlocal.address.p0(ptr @"_ZN16parking_lot_core11parking_lot16with_thread_data11THREAD_DATA29_$u7b$$u7b$constant$u7d$$u7d$28_$u7b$$u7b$closure$u7d$$u7d$23__RUST_STD_INTERNAL_VAL17h0123456789abcdefE")
  ret ptr %entry
}

; CHECK-LABEL: define ptr @anything_else(
; CHECK: call ptr @llvm.threadlocal.address.p0(ptr @other)
define ptr @anything_else() {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @other)
  ret ptr %p
}
