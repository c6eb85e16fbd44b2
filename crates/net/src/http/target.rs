//! What a request asks for, in its forms (RFC 9112, 3.2), and whom it asks: `Host`.

use std::net::Ipv6Addr;

/// A target, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    /// Host and port, of the absolute form: they count instead of `Host`.
    pub authority: Option<&'a str>,
    /// Path and query. Nothing stands before the `?` where an absolute form has no path.
    pub rest: &'a str,
}

impl<'a> Target<'a> {
    /// `None`: the method has no such target.
    pub(super) fn of(method: &str, target: &'a str) -> Option<Self> {
        // All of them in any case, many at a time.
        if !target.bytes().fold(true, |taken, byte| taken & is_taken(byte)) {
            return None;
        }
        if target.starts_with('/') {
            return Some(Self { authority: None, rest: target });
        }
        let of_server = method == "OPTIONS";
        if target == "*" {
            return of_server.then_some(Self { authority: None, rest: target });
        }
        let (scheme, rest) = target.split_once("://")?;
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return None;
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let rest = match rest {
            "" if of_server => "*",
            "" => "/",
            other => other,
        };
        (!authority.is_empty() && is_host(authority.as_bytes()))
            .then_some(Self { authority: Some(authority), rest })
    }

    pub(super) fn path(&self) -> &'a str {
        path(self.rest)
    }
}

/// What stands before the query.
pub(super) fn path(target: &str) -> &str {
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    if path.is_empty() { "/" } else { path }
}

/// Whether a target may have that byte. Browsers send some that no URI has (`|`, `{`, `^` …), and
/// these are the handler's; others are never sent as they are.
fn is_taken(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b'#' | b'<' | b'>')
}

/// Whether it is one host, and perhaps a port: a name, an address of IPv4, one of IPv6 in brackets.
/// It may be empty: so is `Host` where a target has no authority.
pub(super) fn is_host(value: &[u8]) -> bool {
    if value.is_empty() {
        return true;
    }
    let name = if value[0] == b'[' {
        value.iter().position(|&byte| byte == b']').map_or(0, |end| end + 1)
    } else {
        value.iter().position(|&byte| byte == b':').unwrap_or(value.len())
    };
    let (name, port) = value.split_at(name);
    let right = match name {
        [b'[', inner @ .., b']'] => {
            std::str::from_utf8(inner).is_ok_and(|inner| inner.parse::<Ipv6Addr>().is_ok())
        }
        name => is_name(name),
    };
    right && (port.is_empty() || port[0] == b':' && is_port(&port[1..]))
}

/// As URIs have it, but for the comma: with one it would be a list of hosts to others.
fn is_name(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some((byte, after)) = rest.split_first() {
        rest = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => after,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' => after,
            b'(' | b')' | b'*' | b'+' | b';' | b'=' => after,
            b'%' if after.len() > 1 && after[..2].iter().all(u8::is_ascii_hexdigit) => &after[2..],
            _ => return false,
        };
    }
    !name.is_empty()
}

fn is_port(port: &[u8]) -> bool {
    let digits = port.iter().all(u8::is_ascii_digit);
    digits
        && port.iter().fold(0_u32, |sum, digit| (sum * 10 + u32::from(digit - b'0')).min(1 << 16))
            < 1 << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_four_forms_of_which_three_are_served() {
        let is = |method: &str, target: &str, authority: Option<&str>, rest: &str, path: &str| {
            let found = Target::of(method, target).unwrap_or_else(|| panic!("{method} {target}"));
            assert_eq!((found.authority, found.rest, found.path()), (authority, rest, path));
        };
        is("GET", "/a/b?c=d?e", None, "/a/b?c=d?e", "/a/b");
        is("GET", "//a", None, "//a", "//a");
        is("GET", "/a?b=http://c/d", None, "/a?b=http://c/d", "/a");
        is("GET", "/{a}|^?[b]`\\", None, "/{a}|^?[b]`\\", "/{a}|^");
        is("OPTIONS", "*", None, "*", "*");
        is("GET", "http://h:80/big?x", Some("h:80"), "/big?x", "/big");
        is("GET", "HTTPS://[::1]", Some("[::1]"), "/", "/");
        is("GET", "http://h?x=/y", Some("h"), "?x=/y", "/");
        is("OPTIONS", "http://h", Some("h"), "*", "*");
        is("OPTIONS", "http://h/", Some("h"), "/", "/");
        for (method, target) in [
            ("GET", "*"),
            ("GET", "a"),
            ("GET", "h:80"),
            ("GET", "?a"),
            ("GET", "ftp://h/"),
            ("GET", "http:/a"),
            ("GET", "http:///a"),
            ("GET", "http://user@h/a"),
            ("GET", "http://h:a/"),
            ("GET", "http://h,i/"),
            ("GET", "/a#b"),
            ("GET", "/\u{fc}"),
            ("GET", "/\"a\""),
        ] {
            assert_eq!(Target::of(method, target), None, "{method} {target}");
        }
    }

    #[test]
    fn a_host_is_one_name_or_address_with_or_without_a_port() {
        for right in ["", "h", "a.b-c_d", "h:", "h:80", "h:65535", "1.2.3.4:5", "[::1]:80", "%41~"]
        {
            assert!(is_host(right.as_bytes()), "{right}");
        }
        for bad in [
            "a b",
            "a,b",
            "a/b",
            "u@h",
            "h:65536",
            "h:-1",
            "h:a",
            "h:1:2",
            ":80",
            "::1",
            "[::1",
            "[h]",
            "[::1]80",
            "[]",
            "%4",
            "%zz",
            "a?b",
            "a#b",
            "\u{fc}",
            "h:99999999999999999999",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }
}
