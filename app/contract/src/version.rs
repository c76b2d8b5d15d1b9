//! Which version of a record a screen shows. Announcements and answers reach a screen in any order, or late, or not at all.

/// Whether a record that arrives may take the place of the one on the screen: an older version never replaces a newer one. The
/// same version may, since it tells when the record was read last.
pub fn may_replace(arriving: i64, shown: i64) -> bool {
    arriving >= shown
}

/// Whether an announced version is a reason to read the record again.
pub fn is_news(announced: i64, shown: i64) -> bool {
    announced > shown
}

#[cfg(test)]
mod tests {
    //! Every order in which two devices can hear of a record's versions, ask for it and get their answers.

    use super::*;
    use std::{collections::HashSet, io::Write as _};

    const LAST: i64 = 3;

    /// A page, and what is on the way to it. The sets of versions are bits: two answers with the same version are one.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    struct Device {
        shown: i64,
        announcements: u8,
        /// Reads that the server has not seen yet. One more than two finds nothing new.
        asked: u8,
        answers: u8,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    struct World {
        record: i64,
        devices: [Device; 2],
    }

    fn bit(version: i64) -> u8 {
        1 << version
    }

    impl Device {
        fn ask(&mut self) {
            self.asked = (self.asked + 1).min(2);
        }

        fn is_quiet(self) -> bool {
            (self.announcements, self.asked, self.answers) == (0, 0, 0)
        }

        /// What can happen to a page while the record has this version.
        fn next(self, record: i64) -> Vec<Self> {
            let mut found = Vec::new();
            for version in 0..=LAST {
                if self.announcements & bit(version) != 0 {
                    let mut told = Self { announcements: self.announcements & !bit(version), ..self };
                    if is_news(version, self.shown) {
                        told.ask();
                    }
                    found.push(told);
                }
                if self.answers & bit(version) != 0 {
                    let shown = if may_replace(version, self.shown) { version } else { self.shown };
                    found.push(Self { answers: self.answers & !bit(version), shown, ..self });
                }
            }
            if self.asked > 0 {
                found.push(Self { asked: self.asked - 1, answers: self.answers | bit(record), ..self });
            }
            if self.announcements != 0 {
                // The stream breaks with what was on it; a new one begins with a read.
                let mut again = Self { announcements: 0, ..self };
                again.ask();
                found.push(again);
            }
            found
        }
    }

    impl World {
        fn next(self) -> Vec<Self> {
            let mut found = Vec::new();
            if self.record < LAST {
                let record = self.record + 1;
                let announce = |device: Device| Device { announcements: device.announcements | bit(record), ..device };
                found.push(Self { record, devices: self.devices.map(announce) });
            }
            for (d, device) in self.devices.into_iter().enumerate() {
                for next in device.next(self.record) {
                    let mut world = self;
                    world.devices[d] = next;
                    found.push(world);
                }
            }
            found
        }
    }

    #[test]
    fn invariant_09_no_device_shows_an_older_version_after_a_newer_one() {
        let mut seen = HashSet::from([World::default()]);
        let mut waiting = vec![World::default()];
        let mut transitions = 0;
        while let Some(world) = waiting.pop() {
            if world.devices.iter().all(|device| device.is_quiet()) {
                assert!(world.devices.iter().all(|device| device.shown == world.record), "a device has missed it: {world:?}");
            }
            for next in world.next() {
                transitions += 1;
                let mut devices = world.devices.iter().zip(next.devices);
                assert!(devices.all(|(before, after)| before.shown <= after.shown), "{world:?} becomes {next:?}");
                if seen.insert(next) {
                    waiting.push(next);
                }
            }
        }
        let told = format!("\n{LAST} changes of a record on two devices: {} states, {transitions} transitions\n", seen.len());
        std::io::stdout().lock().write_all(told.as_bytes()).unwrap();
        assert!(seen.len() > 10_000, "the search has become trivial");
    }
}
