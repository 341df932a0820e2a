//! Address ranges that are not the public internet, by IANA's registries for special-purpose addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Nat64, Rule};

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u32, rule: Rule) -> (u32, u32, Rule) {
    (u32::from_be_bytes([a, b, c, d]), bits, rule)
}

const FORBIDDEN_V4: &[(u32, u32, Rule)] = &[
    v4(0, 0, 0, 0, 8, Rule::Unspecified),
    v4(10, 0, 0, 0, 8, Rule::Private),
    v4(100, 64, 0, 0, 10, Rule::Shared),
    v4(127, 0, 0, 0, 8, Rule::Loopback),
    v4(168, 63, 129, 16, 32, Rule::CloudService),
    v4(169, 254, 0, 0, 16, Rule::LinkLocal),
    v4(172, 16, 0, 0, 12, Rule::Private),
    v4(192, 0, 0, 0, 24, Rule::Reserved),
    v4(192, 0, 2, 0, 24, Rule::Documentation),
    v4(192, 31, 196, 0, 24, Rule::Anycast),
    v4(192, 52, 193, 0, 24, Rule::Anycast),
    v4(192, 88, 99, 0, 24, Rule::Anycast),
    v4(192, 168, 0, 0, 16, Rule::Private),
    v4(192, 175, 48, 0, 24, Rule::Anycast),
    v4(198, 18, 0, 0, 15, Rule::Documentation),
    v4(198, 51, 100, 0, 24, Rule::Documentation),
    v4(203, 0, 113, 0, 24, Rule::Documentation),
    v4(224, 0, 0, 0, 4, Rule::Multicast),
    v4(240, 0, 0, 0, 4, Rule::Reserved),
];

const fn v6(segments: [u16; 8], bits: u32, rule: Rule) -> (u128, u32, Rule) {
    let [a, b, c, d, e, f, g, h] = segments;
    (Ipv6Addr::new(a, b, c, d, e, f, g, h).to_bits(), bits, rule)
}

/// The first range that holds the address decides.
const FORBIDDEN_V6: &[(u128, u32, Rule)] = &[
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, Rule::Unspecified),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, Rule::Loopback),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96, Rule::Embedded),
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, Rule::Embedded),
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, Rule::Embedded),
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, Rule::Embedded),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Rule::Embedded),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Rule::Embedded),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Rule::Reserved),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Rule::Documentation),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Rule::Embedded),
    v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, Rule::Anycast),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Rule::Documentation),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Rule::Private),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Rule::LinkLocal),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Rule::Multicast),
];

/// All that IANA gives out as global unicast lies in 2000::/3; whatever else exists is something else.
const GLOBAL_V6: (u128, u32) = (0x2000 << 112, 3);
const NAT64_V6: (u128, u32) = (0x0064_ff9b << 96, 96);

/// The rule that forbids this address.
pub(super) fn forbidden(ip: IpAddr, nat64: Nat64) -> Option<Rule> {
    match ip {
        IpAddr::V4(ip) => forbidden_v4(ip),
        IpAddr::V6(ip) => forbidden_v6(ip, nat64),
    }
}

fn forbidden_v4(ip: Ipv4Addr) -> Option<Rule> {
    let bits = ip.to_bits();
    FORBIDDEN_V4.iter().find(|(net, prefix, _)| (bits ^ net) >> (32 - prefix) == 0).map(|(_, _, rule)| *rule)
}

fn forbidden_v6(ip: Ipv6Addr, nat64: Nat64) -> Option<Rule> {
    let bits = ip.to_bits();
    let within = |(net, prefix): (u128, u32)| (bits ^ net) >> (128 - prefix) == 0;
    if nat64 == Nat64::JudgeEmbedded && within(NAT64_V6) {
        return forbidden_v4(Ipv4Addr::from_bits(bits as u32));
    }
    let listed = FORBIDDEN_V6.iter().find(|(net, prefix, _)| within((*net, *prefix))).map(|(_, _, rule)| *rule);
    listed.or_else(|| (!within(GLOBAL_V6)).then_some(Rule::Reserved))
}
