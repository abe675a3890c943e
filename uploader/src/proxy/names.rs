//! Names in a cluster.

/// The service of the upload server for a PersistentVolumeClaim, as CDI names it: `cdi-upload-NAME`, with dashes for dots,
/// and a hash in place of what is too long.
#[must_use]
pub fn service(claim: &str) -> String {
    let label = shortened("cdi-upload", claim, SUBDOMAIN).replace('.', "-");
    if label.len() <= LABEL { label } else { shortened(&label, "cdi", LABEL) }
}

/// Whether this may be a part of a name in the DNS (RFC 1123).
pub(super) fn is_label(name: &str) -> bool {
    name.len() <= LABEL && is_part(name)
}

/// Whether an object may have this name. Its parts may be longer than labels: only the whole is limited.
pub(super) fn is_subdomain(name: &str) -> bool {
    name.len() <= SUBDOMAIN && name.split('.').all(is_part)
}

fn is_part(name: &str) -> bool {
    let sound = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(sound) && !name.starts_with('-') && !name.ends_with('-')
}

/// `BASE-SUFFIX`, or as much of it as fits with a hash of what does not, as OpenShift's library names builds.
fn shortened(base: &str, suffix: &str, most: usize) -> String {
    let whole = format!("{base}-{suffix}");
    if whole.len() <= most {
        return whole;
    }
    let front = |len: usize| base.get(..len).unwrap_or(base);
    match most.checked_sub(HASHED + suffix.len()) {
        Some(len) => format!("{}-{:08x}-{suffix}", front(len), fnv1a(base)),
        None => {
            let short = format!("{}-{:08x}", front(most - HASHED + 1), fnv1a(&whole));
            short.get(..most).unwrap_or(&short).to_owned()
        }
    }
}

fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

const LABEL: usize = 63;
const SUBDOMAIN: usize = 253;
/// `-HASH-`
const HASHED: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services() {
        assert_eq!(service("disk"), "cdi-upload-disk");
        assert_eq!(service("fedora.36.x"), "cdi-upload-fedora-36-x");
        assert_eq!(service(&"a".repeat(52)), format!("cdi-upload-{}", "a".repeat(52)));
        let long = service(&"a".repeat(53));
        assert_eq!((long.len(), &long[..11], &long[59..]), (63, "cdi-upload-", "-cdi"));
        assert_ne!(service(&format!("{}b", "a".repeat(60))), service(&format!("{}c", "a".repeat(60))));
        assert!(is_label(&service(&"a.".repeat(126))), "{}", service(&"a.".repeat(126)));
    }

    #[test]
    fn the_hash_is_that_of_everybody() {
        // From the draft of FNV, test vectors.
        assert_eq!((fnv1a(""), fnv1a("a"), fnv1a("foobar")), (0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968));
    }

    #[test]
    fn what_may_be_a_name() {
        for name in ["a", "a-b", "0a.b-c.9", &"a".repeat(253)] {
            assert!(is_subdomain(name), "{name}");
        }
        for name in
            ["", "A", "a_b", "-a", "a.", ".a", "a..b", "a/b", "a:1", "a@b", "<b>", "a%2f", "ä", &"a".repeat(254)]
        {
            assert!(!is_subdomain(name), "{name}");
            assert!(!is_label(name), "{name}");
        }
        assert!(!is_label("a.b") && is_label("kube-system"));
    }
}
