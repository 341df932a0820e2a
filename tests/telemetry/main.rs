//! What operators see: metrics as Prometheus reads them, and the trace of a delivery as a collector gets it.

mod collector;
mod http;
mod metrics;
mod page;
mod prometheus;
mod traces;
