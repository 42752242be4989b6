//! From the wish for a rule to the rule: the line, and the result of the turn.
use admission::CardRefusal;
use flow::{Direction, PortId};
use service::Binding;

use super::{Command, Commands, Connection, Fact, Installed, LineEnd, Placement, Stage};
use crate::encode::{NotRewritten, Visibility};

/// Refusals for a passing reason that a connection may have.
const FAILURES: u8 = 4;

impl<R> Connection<R> {
    pub(super) fn line_up_both(&mut self, placements: [Placement; 2], commands: &mut Commands<R>) {
        for (direction, placement) in Direction::BOTH.into_iter().zip(placements) {
            if matches!(self.stage(direction), Stage::Software) {
                self.line_up(direction, placement, commands);
            }
        }
    }

    pub(super) fn line_up(
        &mut self,
        direction: Direction,
        placement: Placement,
        commands: &mut Commands<R>,
    ) {
        let stage = match placement {
            Placement::Port(port) => {
                commands.push(Command::LineUp { direction, port, end: LineEnd::Back });
                Stage::Waiting(port)
            }
            Placement::Software => Stage::Software,
            Placement::Crowded => {
                self.may_ask = true;
                self.refusal = Some(CardRefusal::Crowded);
                Stage::Software
            }
        };
        self.side_mut(direction).stage = stage;
    }

    /// Puts a waiting direction back in its line.
    pub(super) fn line_up_again(
        &self,
        direction: Direction,
        end: LineEnd,
        commands: &mut Commands<R>,
    ) {
        if let Stage::Waiting(port) = *self.stage(direction) {
            commands.push(Command::LineUp { direction, port, end });
        }
    }

    pub(super) fn leave_line(&mut self, direction: Direction, commands: &mut Commands<R>) {
        if let Stage::Waiting(port) = *self.stage(direction) {
            commands.push(Command::Count(Fact::Late(port)));
            self.side_mut(direction).stage = Stage::Software;
        }
    }

    pub(super) fn turn(
        &mut self,
        direction: Direction,
        port: PortId,
        ready: bool,
        commands: &mut Commands<R>,
    ) {
        if !self.waits_on(direction, port) {
            return;
        }
        if !ready {
            self.may_ask = true;
            self.side_mut(direction).stage = Stage::Software;
            return self.finish(commands);
        }
        match self.held {
            Some(_) => self.create(direction, commands),
            None => commands.push(Command::Hold(direction)),
        }
    }

    pub(super) fn hold(
        &mut self,
        direction: Direction,
        binding: Option<Binding>,
        commands: &mut Commands<R>,
    ) {
        if !self.is_waiting(direction) {
            return;
        }
        if self.held.is_none() {
            self.held = binding;
        }
        if self.held.is_some() {
            return self.create(direction, commands);
        }
        self.leave_line(direction, commands);
        self.finish(commands);
    }

    pub(super) fn create(&self, direction: Direction, commands: &mut Commands<R>) {
        if let Some(binding) = self.held {
            let fallback = self.not_rewritten(direction).is_some();
            commands.push(Command::Create { direction, binding, fallback });
        }
    }

    pub(super) fn created(&mut self, direction: Direction, rule: R, visibility: Visibility) {
        let stage = &mut self.side_mut(direction).stage;
        if let Stage::Waiting(port) = *stage {
            *stage = Stage::Installed(Installed { rule, port, visibility, aged: false });
        }
    }

    /// Waits for a rule of the port's next encoding. `false`: the refused rule was of
    /// that encoding already.
    pub(super) fn fall_back(
        &mut self,
        direction: Direction,
        why: NotRewritten,
        commands: &mut Commands<R>,
    ) -> bool {
        let not_rewritten = &mut self.side_mut(direction).not_rewritten;
        if not_rewritten.is_some() {
            return false;
        }
        *not_rewritten = Some(why);
        self.line_up_again(direction, LineEnd::Front, commands);
        true
    }

    pub(super) fn refused(
        &mut self,
        direction: Direction,
        fallback: Option<NotRewritten>,
        commands: &mut Commands<R>,
    ) {
        if !self.is_waiting(direction) {
            return;
        }
        if !fallback.is_some_and(|why| self.fall_back(direction, why, commands)) {
            self.refusal = Some(CardRefusal::Unsupported);
            self.side_mut(direction).stage = Stage::Software;
        }
    }

    /// The direction tries again at the end of its line, a few times.
    pub(super) fn failed(
        &mut self,
        direction: Direction,
        fallback: bool,
        commands: &mut Commands<R>,
    ) {
        if !self.is_waiting(direction) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures < FAILURES {
            return self.line_up_again(direction, LineEnd::Back, commands);
        }
        if fallback && self.fall_back(direction, NotRewritten::Failed, commands) {
            return;
        }
        self.may_ask = true;
        self.refusal = Some(CardRefusal::Failed);
        self.side_mut(direction).stage = Stage::Software;
    }
}
