//! Typed ids, and what an id says by itself: an event's and a delivery's id carry their shard and find each other.

use std::{fmt, str::FromStr};

use uuid::Uuid;

/// The unit of ownership: every account lives in one of 256 shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard(u8);

impl Shard {
    /// How many shards there are.
    pub const COUNT: usize = 256;

    /// The shard with this number.
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl From<Shard> for i16 {
    fn from(shard: Shard) -> Self {
        Self::from(shard.0)
    }
}

impl TryFrom<i16> for Shard {
    type Error = IdError;

    fn try_from(number: i16) -> Result<Self, IdError> {
        u8::try_from(number).map(Self).map_err(|_| IdError::Shard)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(i64);

        impl $name {
            /// Wraps a number that the database gave.
            pub const fn new(number: i64) -> Self {
                Self(number)
            }

            /// The number.
            pub const fn get(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// The internal number of an account; never used again.
    AccountNumber
}
number! {
    /// The internal number of an endpoint; never used again, so a re-created endpoint id has another.
    EndpointNumber
}

/// The fence of a lease: a random number of 63 bits, never 0, compared for equality only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(i64);

impl LeaseId {
    /// A lease id from 64 random bits.
    pub const fn from_random(random: u64) -> Self {
        let id = (random >> 1).cast_signed();
        if id == 0 { Self(1) } else { Self(id) }
    }

    /// A lease id from the wire or the database.
    pub fn new(id: i64) -> Result<Self, IdError> {
        if id > 0 { Ok(Self(id)) } else { Err(IdError::Lease) }
    }

    /// The number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

/// An event's id: a UUIDv7 (RFC 9562, section 5.7) with the shard in byte 9 and zeros in bytes 14 and 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(Uuid);

/// A delivery's id: its event's, with its ordinal 1, 2, … in bytes 14 and 15, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(Uuid);

impl EventId {
    const PREFIX: &str = "evt_";

    /// The id of an event of `shard` accepted at `unix_ms`, made unique by 64 random bits (50 are used).
    pub fn mint(unix_ms: u64, random: u64, shard: Shard) -> Self {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&unix_ms.to_be_bytes()[2..]);
        let r = random.to_be_bytes();
        bytes[6] = 0x70 | (r[0] & 0x0f);
        bytes[7] = r[1];
        bytes[8] = 0x80 | (r[2] & 0x3f);
        bytes[9] = shard.0;
        bytes[10..14].copy_from_slice(&r[4..]);
        Self(Uuid::from_bytes(bytes))
    }

    /// The id of this event's delivery with this ordinal, from 1.
    pub fn delivery(self, ordinal: u16) -> DeliveryId {
        let mut bytes = self.0.into_bytes();
        bytes[14..].copy_from_slice(&ordinal.to_be_bytes());
        DeliveryId(Uuid::from_bytes(bytes))
    }

    /// The last id that a delivery of this event can have: `(self, last]` spans all of them.
    pub fn last_delivery(self) -> DeliveryId {
        self.delivery(u16::MAX)
    }

    /// The shard it lives in.
    pub fn shard(self) -> Shard {
        Shard(self.0.as_bytes()[9])
    }

    /// When it was minted, in milliseconds since 1970.
    pub fn unix_ms(self) -> u64 {
        unix_ms(self.0)
    }

    /// As a UUID, for the database.
    pub fn uuid(self) -> Uuid {
        self.0
    }

    /// From the database or the wire.
    pub fn from_uuid(uuid: Uuid) -> Result<Self, IdError> {
        if uuid.get_version_num() == 7 && ordinal(uuid) == 0 { Ok(Self(uuid)) } else { Err(IdError::Event) }
    }
}

impl DeliveryId {
    const PREFIX: &str = "dlv_";

    /// The event it belongs to.
    pub fn event(self) -> EventId {
        let mut bytes = self.0.into_bytes();
        bytes[14..].fill(0);
        EventId(Uuid::from_bytes(bytes))
    }

    /// Its place among its event's deliveries, from 1.
    pub fn ordinal(self) -> u16 {
        ordinal(self.0)
    }

    /// The shard it lives in.
    pub fn shard(self) -> Shard {
        Shard(self.0.as_bytes()[9])
    }

    /// As a UUID, for the database.
    pub fn uuid(self) -> Uuid {
        self.0
    }

    /// From the database or the wire.
    pub fn from_uuid(uuid: Uuid) -> Result<Self, IdError> {
        if uuid.get_version_num() == 7 && ordinal(uuid) != 0 { Ok(Self(uuid)) } else { Err(IdError::Delivery) }
    }
}

fn ordinal(uuid: Uuid) -> u16 {
    let bytes = uuid.as_bytes();
    u16::from_be_bytes([bytes[14], bytes[15]])
}

fn unix_ms(uuid: Uuid) -> u64 {
    (uuid.as_u128() >> 80) as u64
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.0.simple())
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.0.simple())
    }
}

impl FromStr for EventId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse(text, Self::PREFIX).and_then(|uuid| Self::from_uuid(uuid).ok()).ok_or(IdError::Event)
    }
}

impl FromStr for DeliveryId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse(text, Self::PREFIX).and_then(|uuid| Self::from_uuid(uuid).ok()).ok_or(IdError::Delivery)
    }
}

fn parse(text: &str, prefix: &str) -> Option<Uuid> {
    let hex = text.strip_prefix(prefix)?;
    let plain = hex.len() == 32 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if plain { Uuid::try_parse(hex).ok() } else { None }
}

/// Why a text or a number is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Outside 0–255.
    #[error("a shard is a number from 0 to 255")]
    Shard,
    /// Not positive.
    #[error("a lease id is a positive number")]
    Lease,
    /// Not `evt_` and a UUIDv7 whose last 16 bits are zero.
    #[error("an event id is `evt_` and 32 lower-case hex digits, as Emit answers it")]
    Event,
    /// Not `dlv_` and a UUIDv7 whose last 16 bits are not zero.
    #[error("a delivery id is `dlv_` and 32 lower-case hex digits, as ListDeliveries shows it")]
    Delivery,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_and_its_deliveries_find_each_other() {
        let event = EventId::mint(1_700_000_000_123, 0x0123_4567_89ab_cdef, Shard::new(0xa7));
        let delivery = event.delivery(65_535);
        assert_eq!(event.shard(), Shard::new(0xa7));
        assert_eq!(event.unix_ms(), 1_700_000_000_123);
        assert_eq!((delivery.event(), delivery.ordinal(), delivery.shard()), (event, 65_535, event.shard()));
        assert!(event.delivery(1).uuid() > event.uuid() && event.delivery(1) < event.last_delivery());
        assert_eq!(event.to_string().parse(), Ok(event));
        assert_eq!(delivery.to_string().parse(), Ok(delivery));
        assert_eq!(event.uuid().get_version_num(), 7);
        assert_eq!(event.uuid().get_variant(), uuid::Variant::RFC4122);
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let event = EventId::mint(1, 2, Shard::new(3));
        let bad = [
            String::new(),
            "evt_".into(),
            event.to_string().to_uppercase(),
            event.to_string().replace("evt_", "dlv_"),
            format!("{event}0"),
            format!("evt_{}", event.uuid().hyphenated()),
            "evt_00000000000040008000000000000000".into(),
        ];
        for text in bad {
            assert!(text.parse::<EventId>().is_err(), "{text}");
            assert!(text.parse::<DeliveryId>().is_err(), "{text}");
        }
        assert!(LeaseId::new(0).is_err() && LeaseId::new(-1).is_err());
        assert_eq!(LeaseId::from_random(1).get(), 1);
        assert!(LeaseId::from_random(u64::MAX).get() > 0);
        assert!(Shard::try_from(256).is_err());
    }
}
