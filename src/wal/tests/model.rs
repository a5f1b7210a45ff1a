//! The log against a list in memory.

use super::{disk::Unsynced, *};

#[derive(Clone, Debug)]
enum Action {
    Append {
        tenant: u8,
        bytes: usize,
    },
    /// Handed in and forgotten: it may be in the log after a power loss or not, but never in part.
    AppendUnheard {
        tenant: u8,
        bytes: usize,
    },
    Release {
        tenant: u8,
        back: u64,
    },
    Reopen,
    LosePower(Unsynced),
}

fn unsynced() -> impl Strategy<Value = Unsynced> {
    prop_oneof![
        Just(Unsynced::Lost),
        any::<u8>().prop_map(Unsynced::Torn),
        Just(Unsynced::Zeros),
        Just(Unsynced::Holes),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (0..3_u8, 0..200_usize).prop_map(|(tenant, bytes)| Action::Append { tenant, bytes }),
        1 => (0..3_u8, 0..200_usize).prop_map(|(tenant, bytes)| Action::AppendUnheard { tenant, bytes }),
        2 => (0..3_u8, 0..5_u64).prop_map(|(tenant, back)| Action::Release { tenant, back }),
        1 => Just(Action::Reopen),
        1 => unsynced().prop_map(Action::LosePower),
    ]
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// What the log should hold.
#[derive(Default)]
struct Model {
    frames: Vec<(u64, usize, Vec<u8>)>,
    marks: [Option<u64>; 3],
    next_seq: u64,
}

impl Model {
    fn append(&mut self, tenant: u8, body: Vec<u8>) -> u64 {
        self.frames.push((self.next_seq, tenant.into(), body));
        self.next_seq += 1;
        self.next_seq - 1
    }

    fn release(&mut self, tenant: u8, mark: u64) {
        let held = &mut self.marks[usize::from(tenant)];
        *held = (*held).max(Some(mark));
    }

    fn held(&self) -> Vec<(u64, Vec<u8>)> {
        let kept = self.frames.iter().filter(|(seq, t, _)| self.marks[*t].is_none_or(|mark| *seq > mark));
        kept.map(|(seq, _, body)| (*seq, body.clone())).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Scenario: any mix of appends, releases, restarts and power losses.
    /// Guarantee: the log holds what a list of acknowledged frames above the marks holds; numbers have no gap and
    /// never come back.
    #[test]
    fn the_log_differs_from_its_model(actions in prop::collection::vec(action(), 1..40)) {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("wal");
        let disk = TestDisk::default();
        let open = || Wal::open_with(&at, small(), 0, Arc::new(disk.clone())).unwrap();
        let (mut wal, _, mut _frames) = open();
        let mut model = Model::default();
        for action in actions {
            match action {
                Action::Append { tenant, bytes } => {
                    let body = vec![tenant; bytes];
                    let seq = append(&wal, NAMES[usize::from(tenant)], &body).unwrap();
                    prop_assert_eq!(seq, model.append(tenant, body));
                }
                Action::AppendUnheard { tenant: t, bytes } => {
                    let body = vec![t; bytes];
                    let tenant = tenant(NAMES[usize::from(t)]);
                    drop(wal.append(tenant, 7, FrameKind::Logs, Bytes::from(body.clone())).unwrap());
                    let _ = model.append(t, body);
                }
                Action::Release { tenant: t, back } => {
                    // Only what was heard of as durable is released.
                    let Some(mark) = model.next_seq.checked_sub(back + 1) else { continue };
                    let probe = append(&wal, "probe", b"").unwrap();
                    prop_assert_eq!(probe, model.next_seq);
                    model.next_seq += 1;
                    wal.release(&BTreeMap::from([(tenant(NAMES[usize::from(t)]), mark)])).unwrap();
                    wal.release(&BTreeMap::from([(tenant("probe"), probe)])).unwrap();
                    model.release(t, mark);
                }
                Action::Reopen | Action::LosePower(_) => {
                    wal.close();
                    if let Action::LosePower(how) = action {
                        disk.lose_power(how);
                    }
                    let (again, recovered, frames) = open();
                    prop_assert_eq!(bodies(&recovered), model.held());
                    prop_assert_eq!(recovered.next_seq, model.next_seq);
                    prop_assert_eq!(recovered.quarantined, 0);
                    (wal, _frames) = (again, frames);
                }
            }
        }
    }
}
