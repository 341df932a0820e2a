//! Receivers that misbehave in every known way, through real processes, with a healthy one beside them.

mod proxies;
mod receivers;
mod secrets;
