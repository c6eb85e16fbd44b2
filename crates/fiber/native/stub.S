/* curtail_safepoint_slow and curtail_safepoint_slow_sse: the register-preserving ways from a safepoint
 * to the runtime. The second is for functions compiled without AVX: nothing but xmm0-15 can be live in
 * them, since all vector registers are the caller's to save.
 *
 * Called from anywhere in instrumented code, at any stack alignment, never above a red zone in use.
 * It changes nothing but the flags; the x87 register stack must be empty (the pass declares it
 * clobbered). Three stages: in mode CLOCK, with no yield asked for and the deadline not there,
 * three registers are enough to grant another budget; the general ones are, to ask
 * curtail_safepoint_check; only a yield pays for the vector state. The frame is described from rbp
 * throughout, so that unwinding works at every instruction.
 *
 *      8(%rbp)   return address
 *       (%rbp)   rbp
 *    -72(%rbp)   rax rcx rdx rsi rdi r8 r9 r10 r11
 *    -80(%rbp)   MXCSR          only when yielding, from here on
 *    -84(%rbp)   x87 control word
 *    -88(%rbp)   the width that was saved
 *       (%rsp)   the vector registers, 64-byte aligned
 */
#include "state.h"

#define CONTROL_SIZE 32
#define K_OFFSET 2048
#define AREA_SIZE (2048 + 64)

.macro all16 op, reg, size, from_memory
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        .if \from_memory
        \op     (\n*\size)(%rsp), %\reg\n
        .else
        \op     %\reg\n, (\n*\size)(%rsp)
        .endif
        .endr
.endm

.macro upper16_zmm from_memory
        .irp n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        .if \from_memory
        vmovdqa64 (\n*64)(%rsp), %zmm\n
        .else
        vmovdqa64 %zmm\n, (\n*64)(%rsp)
        .endif
        .endr
.endm

/* The block's offsets and numbers, as safepoint.c asserts them. */
#define BUDGET 0
#define POLL 8
#define PENDING 16
#define MODE 20
#define DEADLINE 24
#define GRANTED 40
#define PACE 64
#define EDGE 72
#define READINGS 80
#define SLACK 120
#define MODE_CLOCK 2

/* The frame's beginning: rbp and three registers. */
.macro enter
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
.endm

/* All other general registers that a call may change, and an aligned stack. */
.macro enter_more
        pushq   %rsi
        pushq   %rdi
        pushq   %r8
        pushq   %r9
        pushq   %r10
        pushq   %r11
        andq    $-16, %rsp
.endm

/* Before the deadline, with nothing else to look at: grants budget and returns. Goes on behind where
 * the deadline is reached, with the TSC in rax, and else at `other`. */
.macro look other
        movq    curtail_safepoint@gottpoff(%rip), %rcx
        movl    %fs:MODE(%rcx), %eax
        xorl    $MODE_CLOCK, %eax
        orl     %fs:PENDING(%rcx), %eax
        orl     %fs:POLL(%rcx), %eax
        jne     \other
        rdtsc
        shlq    $32, %rdx
        orq     %rdx, %rax
        incq    %fs:READINGS(%rcx)
        movq    %fs:DEADLINE(%rcx), %rdx
        subq    %rax, %rdx
        cmpq    %fs:SLACK(%rcx), %rdx
        jle     .Ldue\@
        subq    $CURTAIL_CHECK_CYCLES, %rdx
        imulq   %fs:PACE(%rcx), %rdx
        shrq    $10, %rdx
        addq    %fs:EDGE(%rcx), %rdx
        movq    %fs:BUDGET(%rcx), %rax
        movq    %rdx, %fs:BUDGET(%rcx)
        subq    %rax, %rdx
        addq    %rdx, %fs:GRANTED(%rcx)
        popq    %rdx
        popq    %rcx
        popq    %rax
        .cfi_remember_state
        popq    %rbp
        .cfi_def_cfa %rsp, 8
        .cfi_restore %rbp
        ret
        .cfi_restore_state
.Ldue\@:
.endm

/* The hook, and the fiber that it switches to, get the control words that the ABI promises. */
.macro hook
        stmxcsr -80(%rbp)
        fnstcw  -84(%rbp)
        movl    -80(%rbp), %eax
        andl    $0xffc0, %eax
        cmpl    $0x1f80, %eax
        je      .Lx87\@
        ldmxcsr .Ldefault_mxcsr(%rip)
.Lx87\@:
        cmpw    $0x37f, -84(%rbp)
        je      .Lcall\@
        fldcw   .Ldefault_x87(%rip)
.Lcall\@:
        call    *56(%rdi)
        ldmxcsr -80(%rbp)
        fldcw   -84(%rbp)
.endm

        .text
        .globl  curtail_safepoint_slow
        .type   curtail_safepoint_slow, @function
        .p2align 4
curtail_safepoint_slow:
        .cfi_startproc
        enter
        look    .Lother
.Lask:
        enter_more
        movq    %rax, %rdi
        call    curtail_safepoint_check
.Lchecked:
        testq   %rax, %rax
        jne     .Lyield
.Lback:
        leaq    -72(%rbp), %rsp
        popq    %r11
        popq    %r10
        popq    %r9
        popq    %r8
        popq    %rdi
        popq    %rsi
        popq    %rdx
        popq    %rcx
        popq    %rax
        .cfi_remember_state
        popq    %rbp
        .cfi_def_cfa %rsp, 8
        .cfi_restore %rbp
        ret
        .cfi_restore_state

.Lother:
        xorl    %eax, %eax
        jmp     .Lask

.Lyield:
        movq    %rax, %rdi
        subq    $(AREA_SIZE + CONTROL_SIZE), %rsp
        andq    $-64, %rsp
        movl    curtail_state_width(%rip), %esi
        cmpl    $0, curtail_state_ask(%rip)
        je      .Lsave
        /* XINUSE: bit 2 upper halves of ymm, 5 opmask, 6 upper halves of zmm, 7 zmm16-31. */
        movl    $1, %ecx
        xgetbv
        testl   $0xe4, %eax
        jne     .Lsave
        movl    $CURTAIL_WIDTH_SSE, %esi
.Lsave:
        movl    %esi, -88(%rbp)
        cmpl    $CURTAIL_WIDTH_AVX, %esi
        jb      .Lsave_sse
        je      .Lsave_avx
        all16   vmovdqa64, zmm, 64, 0
        upper16_zmm 0
        .irp n, 0,1,2,3,4,5,6,7
        kmovq   %k\n, (K_OFFSET + \n*8)(%rsp)
        .endr
        vzeroupper
        jmp     .Lsaved
.Lsave_avx:
        all16   vmovdqa, ymm, 32, 0
        vzeroupper
        jmp     .Lsaved
.Lsave_sse:
        all16   movaps, xmm, 16, 0
.Lsaved:
        hook
        movl    -88(%rbp), %esi
        cmpl    $CURTAIL_WIDTH_AVX, %esi
        jb      .Lrestore_sse
        je      .Lrestore_avx
        all16   vmovdqa64, zmm, 64, 1
        upper16_zmm 1
        .irp n, 0,1,2,3,4,5,6,7
        kmovq   (K_OFFSET + \n*8)(%rsp), %k\n
        .endr
        jmp     .Lback
.Lrestore_avx:
        all16   vmovdqa, ymm, 32, 1
        jmp     .Lback
.Lrestore_sse:
        /* Whatever is wider was zero, and is to be zero and clean again. */
        movl    curtail_state_width(%rip), %esi
        cmpl    $CURTAIL_WIDTH_AVX, %esi
        jb      .Lrestore_xmm
        je      .Lclean
        .irp n, 0,1,2,3,4,5,6,7
        kxorq   %k\n, %k\n, %k\n
        .endr
        .irp n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        vpxord  %zmm\n, %zmm\n, %zmm\n
        .endr
.Lclean:
        vzeroupper
.Lrestore_xmm:
        all16   movaps, xmm, 16, 1
        jmp     .Lback
        .cfi_endproc
        .size   curtail_safepoint_slow, .-curtail_safepoint_slow

        .globl  curtail_safepoint_slow_sse
        .type   curtail_safepoint_slow_sse, @function
        .p2align 4
curtail_safepoint_slow_sse:
        .cfi_startproc
        enter
        look    .Lother_sse
.Lask_sse:
        enter_more
        movq    %rax, %rdi
        call    curtail_safepoint_check
        testq   %rax, %rax
        je      .Lback
        movq    %rax, %rdi
        subq    $(16*16 + CONTROL_SIZE), %rsp
        andq    $-64, %rsp
        all16   movaps, xmm, 16, 0
        hook
        /* What others left in the upper halves would slow down every SSE instruction from here on. */
        cmpl    $CURTAIL_WIDTH_AVX, curtail_state_width(%rip)
        jb      .Lnarrow
        vzeroupper
.Lnarrow:
        all16   movaps, xmm, 16, 1
        jmp     .Lback
.Lother_sse:
        xorl    %eax, %eax
        jmp     .Lask_sse
        .cfi_endproc
        .size   curtail_safepoint_slow_sse, .-curtail_safepoint_slow_sse

/* Where the handler of the pre-emption signal sends the thread (crates/signal/src/context.rs), at any
 * instruction of application code. It has put the address of that instruction below the red zone:
 *
 *    136(%rsp)   the interrupted stack pointer, from which 128 bytes down may be in use
 *       (%rsp)   where to go on
 *
 * The flags are live, and the direction may be any; vector registers hold what they held. */
        .globl  curtail_safepoint_land
        .hidden curtail_safepoint_land
        .type   curtail_safepoint_land, @function
        .p2align 4
curtail_safepoint_land:
        .cfi_startproc
        .cfi_signal_frame
        .cfi_def_cfa %rsp, 136
        .cfi_offset %rip, -136
        pushfq
        .cfi_adjust_cfa_offset 8
        cld
        call    .Lland
        popfq
        .cfi_adjust_cfa_offset -8
        ret     $128
        .cfi_endproc
.Lland:
        .cfi_startproc
        enter
        enter_more
        call    curtail_safepoint_landed
        jmp     .Lchecked
        .cfi_endproc
        .size   curtail_safepoint_land, .-curtail_safepoint_land

        .section .rodata.cst4, "aM", @progbits, 4
        .p2align 2
.Ldefault_mxcsr:
        .long   0x1f80
.Ldefault_x87:
        .long   0x37f

        .section .note.GNU-stack, "", @progbits
