//! The integration tests, one program: what it takes to link them is spent once.

mod answers;
mod hostile;
mod packets;
mod served;
mod shown;
mod zones;
