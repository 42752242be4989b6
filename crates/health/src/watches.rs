//! The watches over all backends, and how many of a service may be down by them.
use std::collections::BTreeMap;

use crate::passive::Complaint;
use crate::{Change, PassiveSettings, Seen, State, TargetKey, Watch};

/// A backend whose passive signals count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Which backend.
    pub key: TargetKey,
    /// What takes it down.
    pub settings: PassiveSettings,
}

/// What passive signals say of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Up or down.
    pub state: State,
    /// Its part of the configured weight, in percent.
    pub percent: u8,
    /// How often it has come up or gone down.
    pub transitions: u64,
    /// What speaks against it, or did the last time; empty if nothing ever did.
    pub why: String,
    /// Whether signals speak against it, and it serves since too many of its service's
    /// backends are down.
    pub spared: bool,
}

#[derive(Debug)]
struct Member {
    watch: Watch,
    standing: Standing,
}

/// All watched backends. Time and counts come from outside.
#[derive(Debug, Default)]
pub struct Watches(BTreeMap<TargetKey, Member>);

impl Watches {
    /// Watches `watched` from now on, and no others. A backend that was watched before keeps
    /// its state. `seen` says what has been counted for a backend. The backends that are
    /// not watched any more and were down by their signals.
    pub fn set(
        &mut self,
        watched: Vec<Watched>,
        seen: impl Fn(&TargetKey) -> Option<Seen>,
    ) -> Vec<TargetKey> {
        let mut old = std::mem::take(&mut self.0);
        for Watched { key, settings } in watched {
            let member = match old.remove(&key) {
                Some(mut member) => {
                    member.watch.set(settings);
                    member
                }
                None => Member::new(settings, seen(&key).unwrap_or_default()),
            };
            self.0.insert(key, member);
        }
        let left = old.into_iter().filter(|(_, own)| own.watch.percent() < 100);
        left.map(|(key, _)| key).collect()
    }

    /// What is known of every watched backend.
    pub fn standings(&self) -> impl Iterator<Item = (&TargetKey, &Standing)> {
        self.0.iter().map(|(key, own)| (key, &own.standing))
    }

    /// Whether no backend is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks at every backend at `now_ms`. `seen` says what has been counted for it; `None`:
    /// it is no backend any more. What has changed.
    pub fn look(
        &mut self,
        now_ms: u64,
        seen: impl Fn(&TargetKey) -> Option<Seen>,
    ) -> Vec<(TargetKey, Change)> {
        let mut changes = Vec::new();
        let mut accused: BTreeMap<String, Vec<(TargetKey, Complaint)>> = BTreeMap::new();
        for (key, member) in &mut self.0 {
            let Some(seen) = seen(key) else { continue };
            let (change, complaint) = member.watch.see(seen, now_ms);
            member.standing.spared = false;
            if let Some(change) = change {
                changes.push((key.clone(), member.note(change)));
            }
            if let Some(complaint) = complaint {
                accused.entry(key.service.clone()).or_default().push((key.clone(), complaint));
            }
        }
        for (service, accused) in accused {
            let mut room = self.room(&service);
            for (key, complaint) in accused {
                let Some(member) = self.0.get_mut(&key) else { continue };
                // Packets to a lost next hop would be dropped, however few backends are left.
                if complaint != Complaint::NextHopLost {
                    if room == 0 {
                        member.standing.spared = true;
                        member.standing.why = member.watch.why(complaint);
                        continue;
                    }
                    room -= 1;
                }
                let change = member.watch.take_down(complaint, now_ms);
                changes.push((key, member.note(change)));
            }
        }
        changes
    }

    /// How many more backends of `service` may go down.
    fn room(&self, service: &str) -> usize {
        let own = || self.0.iter().filter(|(key, _)| key.service == service);
        let most = own().next().map_or(0, |(_, member)| member.watch.settings().most);
        let down = own().filter(|(_, member)| member.watch.state() == State::Down).count();
        (own().count() * usize::from(most) / 100).saturating_sub(down)
    }
}

impl Member {
    fn new(settings: PassiveSettings, seen: Seen) -> Self {
        let (state, percent, transitions) = (State::Up, 100, 0);
        let standing = Standing { state, percent, transitions, why: String::new(), spared: false };
        Self { watch: Watch::new(settings, seen), standing }
    }

    fn note(&mut self, change: Change) -> Change {
        let own = &mut self.standing;
        own.transitions += u64::from(own.state != change.state);
        (own.state, own.percent) = (change.state, change.percent);
        if change.state == State::Down {
            own.why.clone_from(&change.why);
        }
        change
    }
}
