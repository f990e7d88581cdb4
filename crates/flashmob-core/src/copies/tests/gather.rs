use super::super::sign_part;
use super::super::testing::ToyKey;
use super::*;

/// A node whose mirror has so many bytes, made as they are asked for, in answers of that length. Counts what it was asked for.
struct Node<F> {
    size_bytes: u64,
    answer_bytes: u64,
    byte: F,
    told_bytes: u64,
}

impl<F: Fn(u64) -> u8> Node<F> {
    fn new(size_bytes: u64, byte: F) -> Node<F> {
        Node { size_bytes, answer_bytes: 64 * 1024, byte, told_bytes: 0 }
    }

    fn gather(&mut self, keys: Option<&dyn Verify>) -> Result<Vec<u8>, TooLong> {
        gather(keys, |from| {
            let to = self.size_bytes.min(from + self.answer_bytes);
            let bytes: Vec<u8> = (from..to).map(&self.byte).collect();
            self.told_bytes += bytes.len() as u64;
            Ok((self.size_bytes, bytes))
        })
    }
}

const WRITER: Writer = Writer { map_id: [9; 16], epoch: 4, nonce: 5 };

/// A snapshot of so many bytes, and changes.
fn chain(key: &ToyKey, snapshot_bytes: usize, batches: u64) -> Vec<u8> {
    let mut mirror = sign_part(key, &WRITER, None, 10, &vec![7; snapshot_bytes]);
    for at in 0..batches {
        mirror.extend(sign_part(key, &WRITER, Some(10 + at), 11 + at, &[at as u8; 99]));
    }
    mirror
}

#[test]
fn a_mirror_that_is_signed_comes_whole_however_its_answers_are_cut() {
    let key = ToyKey::new(7, 3);
    for (snapshot_bytes, answer_bytes) in [(100, 10), (100, 1 << 20), (1 << 20, 64 * 1024), (9 << 20, 64 * 1024)] {
        let mirror = chain(&key, snapshot_bytes, 30);
        let byte = |at: u64| mirror[at as usize];
        let mut node = Node { answer_bytes, ..Node::new(mirror.len() as u64, byte) };
        assert!(node.gather(Some(&key)).unwrap() == mirror, "{snapshot_bytes} {answer_bytes}");
        let mut node = Node { answer_bytes, ..Node::new(mirror.len() as u64, byte) };
        assert!(node.gather(None).unwrap() == mirror, "{snapshot_bytes} {answer_bytes}");
    }
}

/// As the map's file: what is damaged within a chain is not taken for its end.
#[test]
fn what_follows_a_damaged_part_shows_that_it_is_no_torn_end() {
    let key = ToyKey::new(7, 3);
    let mut mirror = chain(&key, 100, 40_000);
    mirror[500] ^= 1;
    let gathered = Node::new(mirror.len() as u64, |at: u64| mirror[at as usize]).gather(Some(&key)).unwrap();
    assert!(gathered.len() > PART_BYTES_MAX && mirror.starts_with(&gathered), "{}", gathered.len());
}

#[test]
fn a_mirror_without_end_is_not_held() {
    let (key, other) = (ToyKey::new(7, 3), ToyKey::new(8, 3));
    let endless = 4 << 30;
    let most = (HELD_UNVERIFIED_BYTES_MAX + 2 * PART_BYTES_MAX) as u64;
    // Nothing that is a mirror; a part that announces 4 GiB; one that another cluster has signed; one that is forged.
    let mut large = sign_part(&key, &WRITER, None, 10, &[7; 9]);
    large[56..60].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut forged = chain(&key, 100, 1);
    forged[90] ^= 1;
    for (what, begin) in [("no mirror", vec![]), ("another's", chain(&other, 100, 2)), ("forged", forged)] {
        let mut node = Node::new(endless, |at: u64| begin.get(at as usize).copied().unwrap_or(1));
        let gathered = node.gather(Some(&key)).unwrap();
        assert!((gathered.len() as u64) <= most && node.told_bytes <= most, "{what}: {}", node.told_bytes);
    }
    // It is heard to its end, 4 GiB, and not held: here it ends earlier.
    let mut node = Node::new(20 << 20, |at: u64| large.get(at as usize).copied().unwrap_or(1));
    let gathered = node.gather(Some(&key)).unwrap();
    assert!((gathered.len() as u64) <= most, "{}", gathered.len());
    // A chain that repeats a part that was signed once.
    let (first, all) = (chain(&key, 100, 0), chain(&key, 100, 1));
    let part = &all[first.len()..];
    let repeated =
        |at: u64| first.get(at as usize).copied().unwrap_or_else(|| part[(at as usize - first.len()) % part.len()]);
    let mut node = Node::new(endless, repeated);
    assert!((node.gather(Some(&key)).unwrap().len() as u64) <= most);
}

/// Two answers are heard and then held: the second is verified as well.
#[test]
fn a_large_part_that_changes_between_its_hearing_and_its_holding_is_not_believed() {
    let key = ToyKey::new(7, 3);
    let mirror = chain(&key, 9 << 20, 0);
    let mut asked = 0;
    let gathered = gather::<TooLong>(Some(&key), |from| {
        asked += 1;
        let to = mirror.len().min(from as usize + 64 * 1024);
        let mut bytes = mirror[from as usize..to].to_vec();
        // The first time is over after 9 MiB.
        if asked > 200 {
            bytes[0] ^= 1;
        }
        Ok((mirror.len() as u64, bytes))
    });
    assert!(gathered.unwrap() != mirror);
    assert!(asked > 200);
}

#[test]
fn the_first_answer_fixes_the_size_and_without_signatures_that_is_bounded() {
    let mut size_bytes = 200_000;
    let gathered = gather::<TooLong>(None, |_| {
        size_bytes *= 2;
        Ok((size_bytes, vec![1; 65536]))
    });
    assert_eq!(gathered.map(|mirror| mirror.len()), Ok(400_000));
    for (size_bytes, is_taken) in
        [(UNVERIFIED_BYTES_MAX - 1, true), (UNVERIFIED_BYTES_MAX, true), (UNVERIFIED_BYTES_MAX + 1, false)]
    {
        let gathered = gather::<TooLong>(None, |from| Ok((size_bytes, if from == 0 { vec![1] } else { vec![] })));
        assert_eq!(gathered.is_ok(), is_taken, "{size_bytes}");
    }
}
