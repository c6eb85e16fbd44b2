; A panic that leaves code that must not yield lowers the depth again.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

declare i32 @rust_eh_personality(...)
declare void @unseen(ptr)
declare void @cleans(ptr) nounwind

; By a call, or on from its own landing pad. What cannot fail stays as it is.
; CHECK-LABEL: define void @_GLOBAL__sub_I_a(
; CHECK-SAME: personality ptr @rust_eh_personality
; CHECK: add i32 {{.*}}, 1
; CHECK: invoke void @unseen(ptr %p)
; CHECK-NEXT: unwind label %[[PAD:.*]]
; CHECK: call void @cleans(
; CHECK: invoke void @unseen(ptr %q)
; CHECK-NEXT: unwind label %[[PAD]]
; CHECK: invoke void @unseen(ptr %p)
; CHECK-NEXT: unwind label %own
; CHECK: add i32 {{.*}}, -1
; CHECK-NEXT: store volatile
; CHECK-NEXT: ret void
; CHECK: {{^own:}}
; CHECK-NEXT: landingpad
; CHECK-NEXT: cleanup
; CHECK-NEXT: call void @cleans(
; CHECK: add i32 {{.*}}, -1
; CHECK-NEXT: store volatile
; CHECK-NEXT: resume
; CHECK: [[PAD]]:
; CHECK-NEXT: landingpad
; CHECK-NEXT: cleanup
; CHECK: add i32 {{.*}}, -1
; CHECK-NEXT: store volatile
; CHECK-NEXT: resume
; CHECK-NOT: landingpad
; CHECK: {{^[}]}}
define void @_GLOBAL__sub_I_a(ptr %p, ptr %q) personality ptr @rust_eh_personality {
  call void @unseen(ptr %p)
  call void @cleans(ptr %p)
  call void @unseen(ptr %q)
  invoke void @unseen(ptr %p) to label %fine unwind label %own
fine:
  ret void
own:
  %e = landingpad { ptr, i32 } cleanup
  call void @cleans(ptr %q)
  resume { ptr, i32 } %e
}
