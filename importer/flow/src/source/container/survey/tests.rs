use importer_codec::tar::{Entry, EntryKind};
use proptest::prelude::*;

use super::{Place, Survey};

/// What a layer does, in few words.
#[derive(Clone, Debug)]
enum Act {
    File(&'static str),
    Delete(&'static str),
    Empty,
}

fn acts() -> impl Strategy<Value = Vec<Vec<Act>>> {
    let name = prop::sample::select(vec!["disk/a", "disk/b", "disk/sub/c", "x/a"]);
    let act = prop_oneof![
        3 => name.clone().prop_map(Act::File),
        2 => prop::sample::select(vec!["disk/a", "disk/b", "disk/sub", "disk", "x"]).prop_map(Act::Delete),
        1 => Just(Act::Empty),
    ];
    prop::collection::vec(prop::collection::vec(act, 0..4), 1..4)
}

/// The files that are there when layers are unpacked one over the other, as a container runtime does it.
fn unpacked(layers: &[Vec<Act>]) -> Vec<(&'static str, usize)> {
    let mut files: Vec<(&'static str, usize)> = Vec::new();
    for (layer, acts) in layers.iter().enumerate() {
        for act in acts {
            match act {
                Act::File(_) => {}
                Act::Delete(gone) => {
                    files.retain(|(name, at)| *at == layer || !(name == gone || name.starts_with(&format!("{gone}/"))));
                }
                Act::Empty => files.retain(|(name, at)| *at == layer || !name.starts_with("disk/")),
            }
        }
        for act in acts {
            if let Act::File(name) = act {
                files.retain(|(other, _)| other != name);
                files.push((name, layer));
            }
        }
    }
    files
}

fn entry(path: &str) -> Entry {
    Entry { path: path.into(), kind: EntryKind::Regular, link: Vec::new(), size: 5, mode: 0, sparse: false }
}

proptest! {
    /// From the top down is seen what unpacking from below leaves.
    #[test]
    fn layers_read_from_above_are_what_unpacking_leaves(layers in acts()) {
        // A file twice in a layer is refused.
        for acts in &layers {
            let mut names: Vec<_> = acts.iter().filter_map(|act| match act { Act::File(name) => Some(*name), _ => None }).collect();
            names.sort_unstable();
            prop_assume!(names.windows(2).all(|pair| pair[0] != pair[1]));
        }
        let mut disks: Vec<_> = unpacked(&layers).into_iter().filter(|(name, _)| name.starts_with("disk/")).collect();
        disks.sort_unstable();
        let mut survey = Survey::new(None);
        let mut taken = None;
        let mut failed = false;
        for (layer, acts) in layers.iter().enumerate().rev() {
            for (number, act) in acts.iter().enumerate() {
                let path = match act {
                    Act::File(name) => (*name).to_owned(),
                    Act::Delete(name) => match name.rsplit_once('/') {
                        Some((folder, base)) => format!("{folder}/.wh.{base}"),
                        None => format!(".wh.{name}"),
                    },
                    Act::Empty => "disk/.wh..wh..opq".to_owned(),
                };
                let place = Place { layer, entry: number as u64, size: 5 };
                match survey.entry(&entry(&path), place) {
                    Ok(true) => taken = Some((path, layer)),
                    Ok(false) => {}
                    Err(_) => failed = true,
                }
            }
            survey.end_layer();
        }
        match disks.as_slice() {
            [(name, layer)] => {
                prop_assert!(!failed);
                prop_assert_eq!(taken, Some(((*name).to_owned(), *layer)));
                prop_assert_eq!(survey.conclude().unwrap().layer, *layer);
            }
            [] => prop_assert!(!failed && taken.is_none() && survey.conclude().is_err()),
            _ => prop_assert!(failed && survey.conclude().is_err()),
        }
    }
}
