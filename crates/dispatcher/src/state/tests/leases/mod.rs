//! Leases: grants, loss, skipped samples, tenants, and the ends of epochs and jobs.

mod affinity;
mod bits;
mod epoch_ends;
mod grant;
mod held_up;
mod hints;
mod job_end;
mod make_way;
mod poison;
mod retention;
mod sharing;
mod skipped;
mod speculation;
mod tenants;
