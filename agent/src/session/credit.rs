//! How much each replica may send, so that all of them together never send more than fits.
//!
//! Half of the room is spread evenly over the sessions; the other half goes to those that use theirs. What was granted
//! can't be taken back, so nobody is granted more in advance than its part of the first half, and of that not
//! more than leaves as much again free: a newcomer finds something, however many idle ones came before it.

use std::{collections::HashMap, sync::Arc};

/// Deliveries, and bytes of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    /// How many.
    pub(crate) deliveries: u64,
    /// Of payload.
    pub(crate) bytes: u64,
}

/// The room of the agent, and who has it.
#[derive(Debug)]
pub(crate) struct Capacity {
    deliveries: Room,
    bytes: Room,
}

impl Capacity {
    /// All of it free.
    pub(crate) fn new(max: Amount) -> Self {
        Self { deliveries: Room::new(max.deliveries), bytes: Room::new(max.bytes) }
    }

    /// A session begins, with totals of 0.
    pub(crate) fn open(&mut self, replica: &Arc<str>) {
        self.deliveries.open(replica);
        self.bytes.open(replica);
    }

    /// A session ends: what it granted and nobody used is free again.
    pub(crate) fn close(&mut self, replica: &Arc<str>) {
        self.deliveries.close(replica);
        self.bytes.close(replica);
    }

    /// Something came; false if it is more than was granted.
    pub(crate) fn receive(&mut self, replica: &Arc<str>, amount: Amount) -> bool {
        let deliveries_fit = self.deliveries.receive(replica, amount.deliveries);
        let bytes_fit = self.bytes.receive(replica, amount.bytes);
        deliveries_fit && bytes_fit
    }

    /// Something that came is out of hand.
    pub(crate) fn release(&mut self, replica: &Arc<str>, amount: Amount) {
        self.deliveries.release(replica, amount.deliveries);
        self.bytes.release(replica, amount.bytes);
    }

    /// Grants the session what it may have now; its new totals if they rose enough to be told.
    pub(crate) fn top_up(&mut self, replica: &Arc<str>) -> Option<Amount> {
        let deliveries = self.deliveries.top_up(replica);
        let bytes = self.bytes.top_up(replica);
        (deliveries || bytes)
            .then(|| Amount { deliveries: self.deliveries.total(replica), bytes: self.bytes.total(replica) })
    }
}

/// One dimension.
#[derive(Debug)]
struct Room {
    max: u64,
    shares: HashMap<Arc<str>, Share>,
}

#[derive(Debug, Default)]
struct Share {
    open: bool,
    /// Since the session began.
    total: u64,
    /// Granted and not yet used.
    granted: u64,
    /// Received and still in hand, also from earlier sessions.
    in_use: u64,
}

impl Share {
    fn holding(&self) -> u64 {
        self.granted + self.in_use
    }
}

impl Room {
    fn new(max: u64) -> Self {
        Self { max, shares: HashMap::new() }
    }

    fn open(&mut self, replica: &Arc<str>) {
        let share = self.shares.entry(replica.clone()).or_default();
        share.open = true;
        (share.total, share.granted) = (0, 0);
    }

    fn close(&mut self, replica: &Arc<str>) {
        if let Some(share) = self.shares.get_mut(replica) {
            share.open = false;
            share.granted = 0;
        }
        self.shares.retain(|_, share| share.open || share.in_use > 0);
    }

    fn receive(&mut self, replica: &Arc<str>, amount: u64) -> bool {
        let share = self.shares.entry(replica.clone()).or_default();
        let fits = amount <= share.granted;
        share.granted = share.granted.saturating_sub(amount);
        share.in_use += amount;
        fits
    }

    fn release(&mut self, replica: &Arc<str>, amount: u64) {
        let Some(share) = self.shares.get_mut(replica) else { return };
        share.in_use = share.in_use.saturating_sub(amount);
        if !share.open && share.in_use == 0 {
            self.shares.remove(replica);
        }
    }

    fn total(&self, replica: &Arc<str>) -> u64 {
        self.shares.get(replica).map_or(0, |share| share.total)
    }

    /// Grants; true if it is worth a frame.
    fn top_up(&mut self, replica: &Arc<str>) -> bool {
        let sessions = self.shares.values().filter(|share| share.open).count().max(1) as u64;
        let base = (self.max / 2 / sessions).max(1);
        let held: u64 = self.shares.values().map(Share::holding).sum();
        let free = self.max.saturating_sub(held);
        let others = self.shares.iter().filter(|(name, share)| share.open && *name != replica);
        let reserved: u64 = others.map(|(_, share)| base.saturating_sub(share.holding())).sum();
        let Some(share) = self.shares.get_mut(replica).filter(|share| share.open) else { return false };
        let own = base.saturating_sub(share.holding());
        let gain = if own > 0 {
            own.min((free + share.granted).div_ceil(2).saturating_sub(share.granted))
        } else if share.granted < base.div_ceil(2) {
            base.saturating_sub(share.granted).min(free.saturating_sub(reserved))
        } else {
            0
        };
        // Small gains gather, unless the replica waits for them.
        if gain == 0 || (share.granted > 0 && gain < (share.holding() + gain).div_ceil(8)) {
            return false;
        }
        share.granted += gain;
        share.total += gain;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Arc<str> {
        text.into()
    }

    /// Everything that the session may have now.
    fn topped_up(room: &mut Room, replica: &Arc<str>) -> u64 {
        while room.top_up(replica) {}
        room.shares[replica].granted
    }

    #[test]
    fn a_single_session_gets_everything_as_it_uses_it() {
        let (mut room, a) = (Room::new(100), name("a"));
        room.open(&a);
        assert_eq!(topped_up(&mut room, &a), 50);
        assert!(room.receive(&a, 50));
        assert_eq!(topped_up(&mut room, &a), 50);
        assert!(room.receive(&a, 50));
        assert_eq!(topped_up(&mut room, &a), 0);
        assert!(!room.receive(&a, 1), "beyond what was granted");
        room.release(&a, 101);
        assert_eq!(topped_up(&mut room, &a), 50);
        assert_eq!(room.total(&a), 150);
    }

    #[test]
    fn idle_sessions_leave_something_for_the_next() {
        let mut room = Room::new(64);
        let mut granted = Vec::new();
        for session in ["a", "b", "c", "d", "e"] {
            room.open(&name(session));
            granted.push(topped_up(&mut room, &name(session)));
        }
        assert_eq!(granted, [32, 16, 8, 4, 2]);
    }

    #[test]
    fn the_sum_never_exceeds_the_room() {
        let mut room = Room::new(64);
        let names: Vec<Arc<str>> = ["a", "b", "c"].map(name).into();
        let mut seed = 7u64;
        for step in 0..10_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let replica = &names[(seed >> 33) as usize % 3];
            let share = room.shares.get(replica);
            let (granted, in_use, open) =
                share.map_or((0, 0, false), |share| (share.granted, share.in_use, share.open));
            match (seed >> 40) % 8 {
                0 if !open => room.open(replica),
                1 if step % 10 == 0 => room.close(replica),
                2 | 3 if granted > 0 => assert!(room.receive(replica, 1 + seed % granted)),
                4 | 5 if in_use > 0 => room.release(replica, 1),
                _ => {
                    room.top_up(replica);
                }
            }
            assert!(room.shares.values().map(Share::holding).sum::<u64>() <= 64, "step {step}");
        }
    }

    #[test]
    fn a_newcomer_gets_its_part_as_the_first_one_finishes() {
        let (mut room, a, b) = (Room::new(64), name("a"), name("b"));
        room.open(&a);
        for _ in 0..2 {
            assert_eq!(topped_up(&mut room, &a), 32);
            assert!(room.receive(&a, 32));
        }
        room.open(&b);
        assert_eq!(topped_up(&mut room, &b), 0);
        room.release(&a, 16);
        assert_eq!(topped_up(&mut room, &a), 0, "the newcomer's part is reserved");
        assert_eq!(topped_up(&mut room, &b), 8);
        assert!(room.receive(&b, 8));
        assert_eq!(topped_up(&mut room, &b), 4);
    }
}
