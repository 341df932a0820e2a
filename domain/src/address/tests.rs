//! What the table of cases doesn't reach: relaxed policies, the rule that is named, and every text there is.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn rule(policy: &Policy, url: &str) -> Option<&'static str> {
    policy.check_url(url).err().map(|refusal| refusal.rule.as_str())
}

#[test]
fn each_refusal_names_its_rule() {
    let check = |url: &str, expected| assert_eq!(rule(&Policy::default(), url), expected, "{url}");
    check("https://example.com/hook", None);
    check("https://[2606:4700:4700::1111]/", None);
    check(&format!("https://example.com/{}", "a".repeat(2_028)), None);
    check(&format!("https://example.com/{}", "a".repeat(2_029)), Some("too_long"));
    check(&format!("https://example.com/{}", "é".repeat(338)), None);
    check(&format!("https://example.com/{}", "é".repeat(339)), Some("too_long"));
    check("https://exam\tple.com/", Some("character"));
    check("https://example.com\u{3000}/", Some("character"));
    check("example.com", Some("syntax"));
    check("http://example.com/", Some("scheme"));
    check("https://a:b@example.com/", Some("credentials"));
    check("https://example.com/#a", Some("fragment"));
    check("https://134744072/", Some("host_spelling"));
    check("https://ｅxample.com/", Some("host_spelling"));
    check("https://example。com/", Some("host_spelling"));
    check("https://8.8.8.8./", Some("host_spelling"));
    check("https://a!b.example.com/", Some("host_name"));
    check("https://localhost/", Some("local_name"));
    check("https://mylocal/", Some("local_name"));
    check("https://notlocal.example/", None);
    check("https://example.com:25/", Some("port"));
    check("https://127.0.0.1/", Some("loopback"));
    check("https://0x7f.1/", Some("loopback"));
    check("https://10.0.0.1/", Some("private"));
    check("https://169.254.169.254/", Some("link_local"));
    check("https://168.63.129.16/", Some("cloud_service"));
    check("https://[::ffff:8.8.8.8]/", Some("embedded"));
    check("https://[4000::1]/", Some("reserved"));
}

#[test]
fn a_refusal_shows_the_host_and_nothing_more() {
    let refusal = Policy::default().check_url("https://10.0.0.1/secret?token=1").unwrap_err();
    assert_eq!(refusal.to_string(), "10.0.0.1: the address is private");
    let refusal = Policy::default().check_url("https://user:password@example.com/").unwrap_err();
    assert!(!refusal.to_string().contains("password@"), "{refusal}");
}

#[test]
fn development_allows_loopback_by_http_and_nothing_else() {
    let policy = Policy::new(true, &["127.0.0.0/8", "::1/128"]).unwrap();
    let check = |url: &str, expected| assert_eq!(rule(&policy, url), expected, "{url}");
    check("http://127.0.0.1:8080/hook", None);
    check("http://[::1]:8080/hook", None);
    check("http://localhost:8080/hook", None);
    check("http://example.com/", None);
    check("http://10.0.0.1/", Some("private"));
    check("http://2130706433/", Some("host_spelling"));
    check("http://[::ffff:127.0.0.1]/", Some("embedded"));
    check("ftp://127.0.0.1/", Some("scheme"));
    check("http://127.0.0.1:25/", Some("port"));
    assert!(policy.is_relaxed() && !Policy::default().is_relaxed());
    assert!(policy.check_ip("192.168.0.1".parse().unwrap()).is_err());
}

#[test]
fn an_operator_s_ports_are_the_only_ones_and_never_those_of_other_protocols() {
    let policy = Policy::default().with_ports(vec![443, 25]);
    assert_eq!(rule(&policy, "https://example.com/"), None);
    assert_eq!(rule(&policy, "https://example.com:8443/"), Some("port"));
    assert_eq!(rule(&policy, "https://example.com:25/"), Some("port"), "mail's, whoever allows it");
    assert_eq!(rule(&Policy::default(), "https://example.com:8443/"), None);
}

#[test]
fn networks_are_read_strictly() {
    assert!(Policy::new::<&str>(false, &[]).is_ok_and(|policy| policy == Policy::default()));
    for bad in ["", "10.0.0.0", "10.0.0.1/8", "10.0.0.0/33", "example.com/8"] {
        assert_eq!(Policy::new(false, &["127.0.0.0/8", bad]), Err(CidrError { text: bad.to_owned() }));
    }
}

#[test]
fn an_ipv6_only_network_reaches_public_ipv4_through_its_translator() {
    let policy = Policy::default().with_nat64(Nat64::JudgeEmbedded);
    let check = |ip: &str| policy.check_ip(ip.parse().unwrap()).map_err(|refusal| refusal.rule);
    assert_eq!(check("64:ff9b::808:808"), Ok(()));
    assert_eq!(check("64:ff9b::7f00:1"), Err(Rule::Loopback));
    assert_eq!(check("64:ff9b::a9fe:a9fe"), Err(Rule::LinkLocal));
    assert_eq!(check("64:ff9b:1::808:808"), Err(Rule::Embedded));
    assert!(Policy::default().check_ip("64:ff9b::808:808".parse().unwrap()).is_err());
}

#[test]
fn one_bad_address_spoils_an_answer() {
    let ips = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
    assert_eq!(Policy::default().check_answer(&ips(&["8.8.8.8", "2606:4700::1"])), Ok(()));
    assert!(Policy::default().check_answer(&ips(&["8.8.8.8", "::1"])).is_err());
}

#[test]
fn names_of_rules_are_unique() {
    let names: HashSet<_> = Rule::ALL.iter().map(|rule| rule.as_str()).collect();
    assert_eq!(names.len(), Rule::ALL.len());
}

proptest! {
    #[test]
    fn what_is_allowed_is_https_to_a_public_host(
        text in "https://[a-z0-9.:@\\[\\]%/?#\\\\-]{0,30}|\\PC{0,40}|https://[0-9a-fx.:\\[\\]]{1,20}/",
    ) {
        let policy = Policy::default();
        if let Ok(url) = policy.check_url(&text) {
            prop_assert_eq!(url.scheme(), "https");
            prop_assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
            match url.host().unwrap() {
                ::url::Host::Domain(name) => prop_assert!(name.contains('.')),
                ::url::Host::Ipv4(ip) => prop_assert!(policy.check_ip(IpAddr::V4(ip)).is_ok()),
                ::url::Host::Ipv6(ip) => prop_assert!(policy.check_ip(IpAddr::V6(ip)).is_ok()),
            }
            // What was allowed once is allowed as it was stored.
            prop_assert_eq!(policy.check_url(url.as_str()), Ok(url));
        }
    }

    #[test]
    fn public_ipv4_is_what_the_standard_library_calls_so(bits: u32) {
        let ip = std::net::Ipv4Addr::from_bits(bits);
        let special = ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_multicast()
            || ip.is_broadcast() || ip.is_documentation() || ip.is_unspecified();
        prop_assert!(!special || Policy::default().check_ip(IpAddr::V4(ip)).is_err());
    }
}
