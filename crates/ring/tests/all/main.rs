//! The integration tests, one program: what it takes to link them is spent once.

mod frames;
mod loom;
mod loom_absence;
mod loom_frames;
mod loom_steal;
mod loom_threads;
mod mpsc;
mod seqlock;
mod shm;
mod spsc;
