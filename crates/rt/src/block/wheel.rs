//! A kthread's timers: a hierarchical wheel of intrusive lists.
//!
//! Seven levels of 64 slots; a slot of level `n` spans 64ⁿ ticks, and a tick is 2¹¹ cycles of the
//! TSC, about a microsecond. A timer lies on the level of the highest digit (base 64) in which its
//! tick differs from the wheel's, so it moves down at most six times. Timers further away than the
//! wheel reaches wait at its far end and are put in again there.
//!
//! One kthread touches it, and the timers in it.

use std::cell::Cell;
use std::ptr;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 7;
/// Ticks that the wheel reaches.
const REACH: u64 = 1 << (BITS * LEVELS as u32);
const TICK_BITS: u32 = 11;
const NOWHERE: u16 = u16::MAX;

/// One timer, on the stack of the thread that waits. It must not move or go while it is set.
pub(crate) struct Timer<T> {
    pub what: T,
    tick: Cell<u64>,
    slot: Cell<u16>,
    next: Cell<*const Timer<T>>,
    previous: Cell<*const Timer<T>>,
}

impl<T> Timer<T> {
    pub(crate) fn new(what: T) -> Self {
        Self {
            what,
            tick: Cell::new(0),
            slot: Cell::new(NOWHERE),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
        }
    }

    /// Whether it is in a wheel.
    pub(crate) fn is_set(&self) -> bool {
        self.slot.get() != NOWHERE
    }
}

/// A kthread's timers.
pub(crate) struct Wheel<T> {
    now: Cell<u64>,
    count: Cell<usize>,
    /// By level: a bit for each slot that is not empty.
    occupied: [Cell<u64>; LEVELS],
    slots: Box<[Cell<*const Timer<T>>]>,
}

impl<T> Wheel<T> {
    pub(crate) fn new(now_tsc: u64) -> Self {
        Self {
            now: Cell::new(now_tsc >> TICK_BITS),
            count: Cell::new(0),
            occupied: [const { Cell::new(0) }; LEVELS],
            slots: (0..LEVELS * SLOTS).map(|_| Cell::new(ptr::null())).collect(),
        }
    }

    /// Whether no timer is set.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Sets a timer for the first tick that begins at `at_tsc` or later.
    ///
    /// # Safety
    /// The timer is not set, and stays where it is until it has fired or was cancelled.
    pub(crate) unsafe fn set(&self, timer: &Timer<T>, at_tsc: u64) {
        debug_assert!(!timer.is_set());
        timer.tick.set((at_tsc >> TICK_BITS) + 1);
        self.count.set(self.count.get() + 1);
        self.put(timer);
    }

    /// Cancels a timer, if it is set.
    pub(crate) fn cancel(&self, timer: &Timer<T>) {
        if timer.is_set() {
            self.count.set(self.count.get() - 1);
            self.unlink(timer);
        }
    }

    fn put(&self, timer: &Timer<T>) {
        let now = self.now.get();
        // What is due fires at the next tick; what is too far away waits at the far end.
        let tick = timer.tick.get().clamp(now + 1, (now | (REACH - 1)).max(now + 1));
        let level = ((now ^ tick) | (SLOTS as u64 - 1)).ilog2() / BITS;
        let level = (level as usize).min(LEVELS - 1);
        let index = (tick >> (BITS * level as u32)) as usize % SLOTS;
        let slot = &self.slots[level * SLOTS + index];
        timer.slot.set((level * SLOTS + index) as u16);
        timer.previous.set(ptr::null());
        timer.next.set(slot.get());
        // SAFETY: timers in the wheel are where they were set.
        if let Some(next) = unsafe { slot.get().as_ref() } {
            next.previous.set(timer);
        }
        slot.set(timer);
        let occupied = &self.occupied[level];
        occupied.set(occupied.get() | 1 << index);
    }

    fn unlink(&self, timer: &Timer<T>) {
        let place = usize::from(timer.slot.replace(NOWHERE));
        let (next, previous) = (timer.next.get(), timer.previous.get());
        // SAFETY: timers in the wheel are where they were set.
        unsafe {
            if let Some(next) = next.as_ref() {
                next.previous.set(previous);
            }
            match previous.as_ref() {
                Some(previous) => previous.next.set(next),
                None => self.slots[place].set(next),
            }
        }
        if self.slots[place].get().is_null() {
            let occupied = &self.occupied[place / SLOTS];
            occupied.set(occupied.get() & !(1 << (place % SLOTS)));
        }
    }

    /// The slot whose time comes next, and that time (a tick).
    fn next_slot(&self) -> Option<(usize, u64)> {
        let now = self.now.get();
        for level in 0..LEVELS {
            let occupied = self.occupied[level].get();
            if occupied == 0 {
                continue;
            }
            let shift = BITS * level as u32;
            let digit = (now >> shift) as u32 % SLOTS as u32;
            let index = (occupied.rotate_right(digit).trailing_zeros() + digit) % SLOTS as u32;
            let turn = 1_u64 << (shift + BITS);
            let tick = (now & !(turn - 1)) + (u64::from(index) << shift);
            let tick = if tick <= now && level == LEVELS - 1 { tick + turn } else { tick };
            return Some((level * SLOTS + index as usize, tick.max(now + 1)));
        }
        None
    }

    /// No timer fires before that (TSC); `None`: none is set.
    pub(crate) fn next_tsc(&self) -> Option<u64> {
        self.next_slot().map(|(_, tick)| tick << TICK_BITS)
    }

    /// Fires what is due: `fire` gets each timer, which is set no more.
    pub(crate) fn advance(&self, now_tsc: u64, mut fire: impl FnMut(&Timer<T>)) {
        let to = now_tsc >> TICK_BITS;
        while let Some((place, tick)) = self.next_slot() {
            if tick > to {
                break;
            }
            self.now.set(tick);
            let mut list = self.slots[place].replace(ptr::null());
            let occupied = &self.occupied[place / SLOTS];
            occupied.set(occupied.get() & !(1 << (place % SLOTS)));
            // SAFETY: timers in the wheel are where they were set; each is read before `fire`,
            // after which its owner may go on.
            while let Some(timer) = unsafe { list.as_ref() } {
                list = timer.next.get();
                if timer.tick.get() <= tick {
                    timer.slot.set(NOWHERE);
                    self.count.set(self.count.get() - 1);
                    fire(timer);
                } else {
                    self.put(timer);
                }
            }
        }
        self.now.set(to.max(self.now.get()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tsc(tick: u64) -> u64 {
        tick << TICK_BITS
    }

    /// Timers fire in the order of their ticks, none early, none late, however far the steps.
    #[test]
    fn each_fires_when_due() {
        let mut rng = 0x2545_F491_4F6C_DD1D_u64;
        let mut random = move || {
            rng ^= rng << 13;
            rng ^= rng >> 7;
            rng ^= rng << 17;
            rng
        };
        for round in 0..200 {
            let start = random() >> (round % 40 + 12);
            let wheel = Wheel::new(tsc(start));
            let timers: Vec<Timer<usize>> = (0..100).map(Timer::new).collect();
            let due: Vec<u64> =
                (0..100).map(|_| start + (random() >> (22 + random() % 42))).collect();
            for (timer, &at) in timers.iter().zip(&due) {
                // SAFETY: the vector is not touched while they are set.
                unsafe { wheel.set(timer, tsc(at)) };
            }
            for timer in &timers[90..] {
                wheel.cancel(timer);
            }
            let mut fired = [false; 100];
            let mut now = start;
            while let Some(next) = wheel.next_tsc() {
                let step = (next >> TICK_BITS).max(now + 1) + random() % 3;
                wheel.advance(tsc(step), |timer| {
                    let at = due[timer.what] + 1;
                    assert!(at.max(now) <= step && !fired[timer.what], "early, or twice");
                    assert!(at > now || at <= start + 1, "late: {at}, last look {now}");
                    fired[timer.what] = true;
                });
                now = step;
            }
            assert!(fired[..90].iter().all(|&fired| fired) && !fired[90..].contains(&true));
            assert!(wheel.is_empty());
        }
    }
}
