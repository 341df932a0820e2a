//! Paced and isolated, by the receiver's own log: rates, holds, fairness. Each story is small here and as large as its
//! environment variable says (`POSTHASTE_PACING_EVENTS`).

mod fairness;
mod hold;
mod rate;
mod system;
mod window;
