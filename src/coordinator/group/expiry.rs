//! What befalls a classic group without its members: time runs out, or the log
//! refuses it. `[P]`

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::answers::refuse_join;
use super::classic::{ClassicConfig, ClassicGroup, JoinTimer, Out, State};
use crate::protocol::ErrorCode;
use crate::replicated::Now;

impl ClassicGroup {
    /// Does what is due: expires silent members, closes phases.
    pub fn expire(&mut self, now: Now, config: &ClassicConfig, out: &mut Out) {
        let due = |deadline: Duration| deadline <= now.monotonic;
        self.pending_join.retain(|_, deadline| !due(*deadline));
        let silent: Vec<Arc<str>> = self
            .members
            .values()
            .filter(|member| due(member.deadline) && (member.is_new || !member.is_waiting()))
            .map(|member| member.id.clone())
            .collect();
        for id in &silent {
            self.dismiss(id, out);
        }
        let all_joined = self.state == State::PreparingRebalance && self.all_joined();
        if !silent.is_empty() && matches!(self.state, State::Stable | State::CompletingRebalance) {
            self.prepare_rebalance(now, config, out);
        } else if all_joined && (!self.was_empty || self.members.is_empty()) {
            self.complete_join(now, out);
        }
        if let Some(timer) = self.join_timer.filter(|timer| due(timer.deadline)) {
            self.join_phase_is_over(now, timer, config, out);
        }
        if self.sync_deadline.is_some_and(due) {
            self.sync_phase_is_over(now, config, out);
        }
    }

    /// The first rebalance is put off as long as newcomers keep coming.
    fn join_phase_is_over(
        &mut self,
        now: Now,
        timer: JoinTimer,
        config: &ClassicConfig,
        out: &mut Out,
    ) {
        match timer.initial {
            Some((delay, rest)) if self.new_member_added && !rest.is_zero() => {
                self.new_member_added = false;
                let next = config.initial_rebalance_delay.min(rest);
                self.join_timer = Some(JoinTimer {
                    deadline: now.monotonic + next,
                    initial: Some((next, rest.saturating_sub(delay))),
                });
            }
            _ => self.complete_join(now, out),
        }
    }

    /// Members that joined and never synced are out.
    fn sync_phase_is_over(&mut self, now: Now, config: &ClassicConfig, out: &mut Out) {
        self.sync_deadline = None;
        if !matches!(self.state, State::CompletingRebalance | State::Stable)
            || self.pending_sync.is_empty()
        {
            return;
        }
        for id in std::mem::take(&mut self.pending_sync) {
            self.dismiss(&id, out);
        }
        self.prepare_rebalance(now, config, out);
    }

    /// The log has refused to take the group as it stands: the generation fails.
    pub fn not_written(
        &mut self,
        now: Now,
        error: ErrorCode,
        config: &ClassicConfig,
        out: &mut Out,
    ) {
        for member in self.members.values_mut() {
            member.assignment = Bytes::new();
            if self.generation == 0
                && let Some(ticket) = member.joining.take()
            {
                out.answers.push(refuse_join(ticket, &member.id, error));
            }
        }
        if self.state == State::Stable {
            self.prepare_rebalance(now, config, out);
        }
    }
}
