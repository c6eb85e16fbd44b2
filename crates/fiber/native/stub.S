/* curtail_safepoint_slow: the register-preserving way from a safepoint to the runtime.
 *
 * Called from anywhere in instrumented code, at any stack alignment, never above a red zone in use.
 * It changes nothing but the flags. Two stages: general registers are enough to ask
 * curtail_safepoint_check, which mostly says "go on"; only a yield pays for the vector state. The
 * frame is described from rbp throughout, so unwinding works at every instruction.
 */
        .text
        .globl  curtail_safepoint_slow
        .type   curtail_safepoint_slow, @function
        .p2align 4
curtail_safepoint_slow:
        .cfi_startproc
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
        pushq   %rsi
        pushq   %rdi
        pushq   %r8
        pushq   %r9
        pushq   %r10
        pushq   %r11
        andq    $-16, %rsp
        call    curtail_safepoint_check
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

.Lyield:
        movq    %rax, %rdi
        subq    curtail_state_size(%rip), %rsp
        andq    $-64, %rsp
        movl    curtail_state_mask(%rip), %eax
        xorl    %edx, %edx
        cmpl    $1, curtail_state_how(%rip)
        jb      .Lfxsave
        /* The header must be zero where XSAVE leaves it alone. */
        movq    %rdx, 512(%rsp)
        movq    %rdx, 520(%rsp)
        movq    %rdx, 528(%rsp)
        movq    %rdx, 536(%rsp)
        movq    %rdx, 544(%rsp)
        movq    %rdx, 552(%rsp)
        movq    %rdx, 560(%rsp)
        movq    %rdx, 568(%rsp)
        je      .Lxsave
        xsavec64 (%rsp)
        testb   $4, %al
        je      .Lsaved
        vzeroupper
        jmp     .Lsaved
.Lxsave:
        xsave64 (%rsp)
        testb   $4, %al
        je      .Lsaved
        vzeroupper
        jmp     .Lsaved
.Lfxsave:
        fxsave64 (%rsp)
        jmp     .Lx87
.Lsaved:
        /* The hook, and whoever it switches to, gets the control words that the ABI promises. A
         * component in its initial state was not written, so look at what was (XSTATE_BV) first. */
        testb   $1, 512(%rsp)
        je      .Lsse
.Lx87:
        cmpb    $0, 4(%rsp)
        jne     .Lfninit
        cmpw    $0x37f, (%rsp)
        je      .Lsse
.Lfninit:
        fninit
.Lsse:
        cmpl    $0, curtail_state_how(%rip)
        je      .Lmxcsr
        testb   $2, 512(%rsp)
        je      .Lcall
.Lmxcsr:
        movl    24(%rsp), %eax
        andl    $0xffc0, %eax
        cmpl    $0x1f80, %eax
        je      .Lcall
        ldmxcsr .Ldefault_mxcsr(%rip)
.Lcall:
        call    *56(%rdi)
        cmpl    $0, curtail_state_how(%rip)
        je      .Lfxrstor
        movl    curtail_state_mask(%rip), %eax
        xorl    %edx, %edx
        xrstor64 (%rsp)
        jmp     .Lback
.Lfxrstor:
        fxrstor64 (%rsp)
        jmp     .Lback
        .cfi_endproc
        .size   curtail_safepoint_slow, .-curtail_safepoint_slow

        .section .rodata.cst4, "aM", @progbits, 4
        .p2align 2
.Ldefault_mxcsr:
        .long   0x1f80

        .section .note.GNU-stack, "", @progbits
