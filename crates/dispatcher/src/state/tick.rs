//! Effects of time alone, machine by machine.

use forebay_core::Ticks;
use forebay_policy::scaling::window;

use super::effect::Effect;
use super::router::State;

impl State {
    pub(in crate::state) fn tick(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        if self.leases.begin_tick(now, out) {
            self.load.restart(now);
        }
        if now - self.scaled >= window::LOOK_EVERY {
            self.scaled = now;
            self.scale(now);
            self.tick_fleet(now);
            self.load.profiles_mut().write(now);
            self.leases.retire(now, out);
        }
        self.leases.end_tick(now, out);
    }
}
