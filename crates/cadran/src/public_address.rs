//! Which addresses are public: requests of steps go to no others unless the server allows it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

/// Networks that steps may ask although they are not public.
#[derive(Clone, Debug, Default)]
pub struct AllowedNets(pub Vec<AllowedNet>);

impl AllowedNets {
    /// Whether an address is in one of them.
    pub fn allow(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.0.iter().any(|net| net.0.contains(&ip))
    }
}

/// A network, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedNet(IpNet);

impl FromStr for AllowedNet {
    type Err = String;

    fn from_str(text: &str) -> Result<AllowedNet, String> {
        let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let net =
            net.map_err(|_| format!("`{text}` is no network; write `10.1.0.0/16`, `127.0.0.1` or `::1`"))?;
        Ok(AllowedNet(net))
    }
}

impl std::fmt::Display for AllowedNet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What an address is that is not public.
pub fn why_not_public(ip: IpAddr) -> Option<&'static str> {
    match ip.to_canonical() {
        IpAddr::V4(ip) => why_not_public_v4(ip),
        IpAddr::V6(ip) => why_not_public_v6(ip),
    }
}

fn why_not_public_v4(ip: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = ip.octets();
    if ip.is_loopback() {
        return Some("a loopback address");
    }
    if ip.is_private() {
        return Some("a private address");
    }
    if ip.is_link_local() {
        return Some("a link-local address, where machines in a cloud find their credentials");
    }
    let is_reserved = a == 0
        || a >= 224
        || a == 100 && (64..128).contains(&b)
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || a == 198 && (b == 18 || b == 19)
        || ip.is_documentation();
    is_reserved.then_some("an address that is not of the public internet")
}

fn why_not_public_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let segments = ip.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        why_not_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    if ip.is_loopback() {
        return Some("a loopback address");
    }
    if ip.is_unique_local() {
        return Some("a private address");
    }
    if ip.is_unicast_link_local() {
        return Some("a link-local address");
    }
    match segments {
        // NAT64 and 6to4 lead to an address of version 4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        // Everything that is public begins with the bits 001, but for what is set aside there.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, ..] => {
            Some("an address that is not of the public internet")
        }
        [first, ..] if first & 0xe000 == 0x2000 => None,
        _ => Some("an address that is not of the public internet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_public_and_what_is_not() {
        for public in [
            "8.8.8.8",
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(why_not_public(public.parse().expect(public)), None, "{public}");
        }
        for private in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "64:ff9b:1::1",
            "100::1",
        ] {
            assert!(why_not_public(private.parse().expect(private)).is_some(), "{private}");
        }
    }

    #[test]
    fn allowed_networks_hold_their_addresses_in_both_notations() {
        let nets = AllowedNets(["10.1.0.0/16", "::1"].iter().map(|net| net.parse().expect(net)).collect());
        for (ip, expected) in [
            ("10.1.9.9", true),
            ("::ffff:10.1.9.9", true),
            ("10.2.0.1", false),
            ("::1", true),
            ("127.0.0.1", false),
        ] {
            assert_eq!(nets.allow(ip.parse().expect(ip)), expected, "{ip}");
        }
        assert!("localhost".parse::<AllowedNet>().is_err() && "10.0.0.0/33".parse::<AllowedNet>().is_err());
    }
}
