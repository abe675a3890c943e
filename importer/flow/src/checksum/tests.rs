//! Checksums, and the hashes they are compared with.

use bytes::Bytes;

use super::*;
use crate::Piece;

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// One message of each standard's own: RFC 1321, FIPS 180, and M1 and M2 of RFC 6986, whose hashes are written here from
/// the other end, as programs print them (rhash and gost-engine say the same).
const M1: &[u8] = b"012345678901234567890123456789012345678901234567890123456789012";
const M2: &[u8] = b"\xd1\xe5\x20\xe2\xe5\xf2\xf0\xe8\x2c\x20\xd1\xf2\xf0\xe8\xe1\xee\xe6\xe8\x20\xe2\xed\xf3\xf6\xe8\x2c\x20\xe2\
\xe5\xfe\xf2\xfa\x20\xf1\x20\xec\xee\xf0\xff\x20\xf1\xf2\xf0\xe5\xeb\xe0\xec\xe8\x20\xed\xe0\x20\xf5\xf0\xe0\xe1\xf0\xfb\xff\
\x20\xef\xeb\xfa\xea\xfb\x20\xc8\xe3\xee\xf0\xe5\xe2\xfb";
const VECTORS: [(&[u8], &str); 14] = [
    (b"", "md5:d41d8cd98f00b204e9800998ecf8427e"),
    (b"abc", "md5:900150983cd24fb0d6963f7d28e17f72"),
    (b"", "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709"),
    (b"abc", "sha1:a9993e364706816aba3e25717850c26c9cd0d89d"),
    (b"", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    (b"abc", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
        b"",
        "sha512:cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
    ),
    (
        b"abc",
        "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    ),
    (b"", "streebog256:3f539a213e97c802cc229d474c6aa32a825a360b2a933a949fd925208d9ce1bb"),
    (M1, "streebog256:9d151eefd8590b89daa6ba6cb74af9275dd051026bb149a452fd84e5e57b5500"),
    (M2, "streebog256:9dd2fe4e90409e5da87f53976d7405b0c0cac628fc669a741d50063c557e8f50"),
    (
        b"",
        "streebog512:8e945da209aa869f0455928529bcae4679e9873ab707b55315f56ceb98bef0a7362f715528356ee83cda5f2aac4c6ad2ba3a715c1bcd81cb8e9f90bf4c1c1a8a",
    ),
    (
        M1,
        "streebog512:1b54d01a4af5b9d5cc3d86d68d285462b19abc2475222f35c085122be4ba1ffa00ad30f8767b3a82384c6574f024c311e2a481332b08ef7f41797891c1646f48",
    ),
    (
        M2,
        "streebog512:1e88e62226bfca6f9994f1f2d51569e0daf8475a3b0fe61a5300eee46d961376035fe83549ada2b8620fcd7c496ce5b33f0cb9dddc2b6460143b03dabac9fb28",
    ),
];

fn hashed(pieces: &[Piece], checksums: &[Checksum]) -> Digests {
    let hashing = Hashing::start(checksums).unwrap();
    pieces.iter().for_each(|piece| hashing.push(piece).unwrap());
    hashing.finish().unwrap()
}

fn bytes(bytes: &[u8]) -> Piece {
    Piece::Bytes(Bytes::copy_from_slice(bytes))
}

#[test]
fn bytes_are_compared_as_they_come() {
    for (message, checksum) in VECTORS {
        let checksum: Checksum = checksum.parse().unwrap();
        let (mut right, mut wrong) = (checksum.verifier(), checksum.verifier());
        message.chunks(2).for_each(|part| right.push(part));
        wrong.push(message);
        wrong.push(b"x");
        assert!(right.matches() && !wrong.matches(), "{checksum}");
    }
}

#[test]
fn every_algorithm_gives_what_its_standard_says() {
    for (message, expected) in VECTORS {
        let checksum: Checksum = expected.parse().unwrap();
        // As one, and a byte at a time.
        for part in [message.len().max(1), 1] {
            let pieces: Vec<_> = message.chunks(part).map(bytes).collect();
            let seen = hashed(&pieces, std::slice::from_ref(&checksum));
            assert!(check(std::slice::from_ref(&checksum), &[seen], "x").is_ok(), "{expected}");
        }
    }
    for algorithm in Algorithm::ALL {
        assert!(VECTORS.iter().any(|(_, text)| text.starts_with(&format!("{algorithm}:"))), "{algorithm}");
    }
}

#[test]
fn all_at_once_are_as_one_by_one_and_holes_are_zeros() {
    let all: Vec<Checksum> = VECTORS.iter().map(|(_, text)| text.parse().unwrap()).collect();
    // Longer than one part of a hole in the queue, and than the queue.
    let hole = (16 << 20) + 3;
    let sparse = hashed(&[bytes(b"a"), Piece::Hole(hole), bytes(b"b")], &all);
    let mut plain = vec![0; usize::try_from(hole).unwrap() + 2];
    plain[0] = b'a';
    *plain.last_mut().unwrap() = b'b';
    let pieces: Vec<_> = plain.chunks(100_000).map(bytes).collect();
    for algorithm in Algorithm::ALL {
        let one = all.iter().find(|checksum| checksum.algorithm == algorithm).unwrap();
        let alone = hashed(&pieces, std::slice::from_ref(one));
        assert!(sparse.get(algorithm).is_some());
        assert_eq!(sparse.get(algorithm), alone.get(algorithm), "{algorithm}");
    }
}

#[test]
fn what_is_given_up_ends_by_itself() {
    let hashing = Hashing::start(&[]).unwrap();
    hashing.push(&bytes(b"abc")).unwrap();
    drop(hashing);
}

#[test]
fn parses_any_case_and_refuses_by_reason() {
    for text in [
        format!("SHA256:{}", EMPTY.to_uppercase()),
        format!("Sha-256: {EMPTY}\n"),
        format!("Streebog-256:{EMPTY}"),
        format!("MD5:{}", &EMPTY[..32]),
    ] {
        let checksum: Checksum = text.parse().unwrap();
        let shown = checksum.to_string();
        assert_eq!(shown.parse::<Checksum>().unwrap(), checksum);
        assert_eq!(shown, shown.to_lowercase());
    }
    for (text, words) in [
        ("sha256", "write it as ALGORITHM:HEX"),
        (":", "not known"),
        ("crc:00", "not known; md5, sha1, sha256, sha512, streebog256, streebog512 are"),
        ("sha384:00", "not known"),
        ("sha256:zz", "not hexadecimal"),
        ("sha256:+1", "not hexadecimal"),
        ("sha256:", "64 hexadecimal digits, not 0"),
        ("sha256:00", "64 hexadecimal digits, not 2"),
        ("sha512:00", "128 hexadecimal digits"),
        (&format!("sha256:{}", &EMPTY[1..]), "64 hexadecimal digits, not 63"),
        (&format!("sha256:{EMPTY}0"), "64 hexadecimal digits, not 65"),
        ("md5:é", "not hexadecimal"),
        (EMPTY, "say which algorithm it is of: with 64 digits, sha256:HEX or streebog256:HEX"),
        (&EMPTY[..32], "with 32 digits, md5:HEX"),
        (&EMPTY[..40], "with 40 digits, sha1:HEX"),
        (&EMPTY.repeat(2), "with 128 digits, sha512:HEX or streebog512:HEX"),
        (&EMPTY[..50], "write it as"),
    ] {
        let error = text.parse::<Checksum>().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.kind(), Kind::Usage);
    }
}

#[test]
fn a_mismatch_names_both() {
    let right: Checksum = format!("sha256:{EMPTY}").parse().unwrap();
    let right = std::slice::from_ref(&right);
    assert_eq!(check(right, &[hashed(&[], right)], "x").unwrap(), Some(format!("sha256:{EMPTY}")));
    let error = check(right, &[hashed(&[Piece::Hole(3)], right)], "x").unwrap_err();
    assert_eq!(error.kind(), Kind::Mismatch);
    let said = error.to_string();
    assert!(said.starts_with("x: the sha256 checksum is 709e80c8") && said.contains(EMPTY), "{said}");
    // Of two ways to see one object, one is enough, and the first is the object's.
    let seen = [hashed(&[Piece::Hole(3)], right), hashed(&[], right)];
    assert!(check(right, &seen, "x").unwrap().unwrap().starts_with("sha256:709e80c8"));
}
