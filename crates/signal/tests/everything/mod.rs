//! A loop in assembly that holds a value of its own in every register, in the red zone and in the
//! flags.
#![allow(unreachable_pub, reason = "a part of a test")]

use std::sync::atomic::AtomicU32;

/// What the loop loads before and stores after. The assembly knows the offsets.
#[repr(C, align(64))]
#[derive(Clone, PartialEq, Debug)]
pub struct Image {
    pub vectors: [[u64; 8]; 32],
    pub masks: [u64; 8],
    pub red_zone: [u64; 16],
    /// rax rbx rcx rsi rdi r8–r14
    pub general: [u64; 12],
    pub flags: u64,
}

#[repr(C)]
pub struct Work {
    pub stop: AtomicU32,
    pub wide: u32,
    /// The loop gives up after so many rounds: a test that fails must end.
    pub rounds: u64,
    pub before: *const Image,
    pub after: *mut Image,
}

// rdx: the work; rbp: what is left of the rounds.
std::arch::global_asm!(
    ".macro vectors16 op reg size store",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    ".if \\store",
    "\\op [rbp + \\n*64], \\reg\\n",
    ".else",
    "\\op \\reg\\n, [rbp + \\n*64]",
    ".endif",
    ".endr",
    ".endm",
    ".macro upper store",
    ".irp n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    ".if \\store",
    "vmovdqu64 [rbp + \\n*64], zmm\\n",
    ".else",
    "vmovdqu64 zmm\\n, [rbp + \\n*64]",
    ".endif",
    ".endr",
    ".irp n, 0,1,2,3,4,5,6,7",
    ".if \\store",
    "kmovq [rbp + 2048 + \\n*8], k\\n",
    ".else",
    "kmovq k\\n, [rbp + 2048 + \\n*8]",
    ".endif",
    ".endr",
    ".endm",
    ".globl test_loop, test_loop_begin, test_loop_end",
    "test_loop:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov rdx, rdi",
    "mov rbp, [rdx + 16]",
    "cmp dword ptr [rdx + 4], 2",
    "je 512f",
    "cmp dword ptr [rdx + 4], 1",
    "je 256f",
    "vectors16 movups, xmm, 16, 0",
    "jmp 1f",
    "256: vectors16 vmovdqu, ymm, 32, 0",
    "jmp 1f",
    "512: vectors16 vmovdqu64, zmm, 64, 0",
    "upper 0",
    "1:",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "mov rax, [rbp + 2112 + \\n*8]",
    "mov [rsp - 128 + \\n*8], rax",
    ".endr",
    "mov rax, [rbp + 2240]",
    "mov rbx, [rbp + 2248]",
    "mov rcx, [rbp + 2256]",
    "mov rsi, [rbp + 2264]",
    "mov rdi, [rbp + 2272]",
    "mov r8, [rbp + 2280]",
    "mov r9, [rbp + 2288]",
    "mov r10, [rbp + 2296]",
    "mov r11, [rbp + 2304]",
    "mov r12, [rbp + 2312]",
    "mov r13, [rbp + 2320]",
    "mov r14, [rbp + 2328]",
    "mov rbp, [rdx + 8]",
    "std",
    "test_loop_begin:",
    // The carry is live from one round to the next, the zero flag from a test to its jump.
    "stc",
    "2:",
    "dec rbp",
    "jz 3f",
    "jnc 3f",
    "mov r15d, [rdx]",
    "inc r15",
    "dec r15",
    "jz 2b",
    "test_loop_end:",
    "3:",
    "mov rbp, [rdx + 24]",
    "mov [rbp + 2240], rax",
    "mov [rbp + 2248], rbx",
    "mov [rbp + 2256], rcx",
    "mov [rbp + 2264], rsi",
    "mov [rbp + 2272], rdi",
    "mov [rbp + 2280], r8",
    "mov [rbp + 2288], r9",
    "mov [rbp + 2296], r10",
    "mov [rbp + 2304], r11",
    "mov [rbp + 2312], r12",
    "mov [rbp + 2320], r13",
    "mov [rbp + 2328], r14",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "mov rax, [rsp - 128 + \\n*8]",
    "mov [rbp + 2112 + \\n*8], rax",
    ".endr",
    "pushfq",
    "pop rax",
    "cld",
    "and eax, 0x401", // direction and carry
    "mov [rbp + 2336], rax",
    "cmp dword ptr [rdx + 4], 2",
    "je 512f",
    "cmp dword ptr [rdx + 4], 1",
    "je 256f",
    "vectors16 movups, xmm, 16, 1",
    "jmp 4f",
    "256: vectors16 vmovdqu, ymm, 32, 1",
    "jmp 4f",
    "512: vectors16 vmovdqu64, zmm, 64, 1",
    "upper 1",
    "4:",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
);

unsafe extern "C" {
    pub fn test_loop(work: *mut Work);
    pub fn test_loop_begin();
    pub fn test_loop_end();
}

impl Image {
    pub fn zero() -> Self {
        Self { vectors: [[0; 8]; 32], masks: [0; 8], red_zone: [0; 16], general: [0; 12], flags: 0 }
    }

    /// A value of its own everywhere, as far as the machine goes.
    pub fn of(wide: u32) -> Self {
        let mut image = Self::zero();
        let mut next = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = || {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            next
        };
        let (registers, words) = [(16, 2), (16, 4), (32, 8)][wide as usize];
        for register in &mut image.vectors[..registers] {
            register[..words].fill_with(&mut draw);
        }
        if wide == 2 {
            image.masks.fill_with(&mut draw);
        }
        image.red_zone.fill_with(&mut draw);
        image.general.fill_with(&mut draw);
        image.flags = 0x401;
        image
    }
}

pub fn width() -> u32 {
    if std::is_x86_feature_detected!("avx512bw") {
        2
    } else {
        u32::from(std::is_x86_feature_detected!("avx"))
    }
}

const _: () = {
    assert!(std::mem::offset_of!(Work, rounds) == 8);
    assert!(std::mem::offset_of!(Work, before) == 16);
    assert!(std::mem::offset_of!(Work, after) == 24);
    assert!(std::mem::offset_of!(Image, red_zone) == 2112);
    assert!(std::mem::offset_of!(Image, general) == 2240);
    assert!(std::mem::offset_of!(Image, flags) == 2336);
};
