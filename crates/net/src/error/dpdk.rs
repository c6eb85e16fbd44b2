//! Why a device can't be had by DPDK: one message a case, each with what is missing. Cold path.

use thiserror::Error;

/// Why a device can't be had by DPDK.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DpdkError {
    /// The feature is off.
    #[error("this build has no DPDK: the feature `dpdk` has it, and needs Debian's dpdk-dev")]
    NotBuilt,
    /// No name of a device.
    #[error(
        "its name is empty, or has a comma or a zero byte; what follows a comma goes into `args=`"
    )]
    Name,
    /// An option of the EAL, DPDK's base, that is not for users of a server to give.
    #[error("`{word}` is no option of DPDK that a server takes; there is {known}")]
    Word {
        /// The option.
        word: String,
        /// Those that there are.
        known: &'static str,
    },
    /// It can be started once in a process.
    #[error("this process has started DPDK with other options: `{0}`")]
    Started(String),
    /// It did not start.
    #[error(
        "DPDK does not start: {0}; it needs huge pages or `eal=--no-huge`, and its own lines say more"
    )]
    Start(String),
    /// No device, no driver for it, or arguments that its driver refused.
    #[error(
        "DPDK has no such device, or its driver refuses it: {0}; a NIC is to be bound to vfio-pci \
         (`dpdk-devbind.py --status`), for others there is `args=`"
    )]
    NoDevice(String),
    /// Another transport of this process has it.
    #[error("another transport has the device")]
    InUse,
    /// More than it has.
    #[error("queues is {wanted}, and the device has {most}")]
    Queues {
        /// What was asked for.
        wanted: u16,
        /// What there is.
        most: u16,
    },
    /// Not within what the device can.
    #[error("mtu is {wanted}, and the device can {least} to {most}")]
    Mtu {
        /// What was asked for.
        wanted: u16,
        /// The least.
        least: u16,
        /// The most.
        most: u16,
    },
    /// No memory for frames.
    #[error("no memory for frames: more huge pages, `eal=-m;MEGABYTES`, or a smaller `frames=`")]
    Memory,
    /// The driver refused for another reason.
    #[error("its driver can't {what}: {reason}")]
    Driver {
        /// What was tried.
        what: String,
        /// Its answer.
        reason: String,
    },
}
