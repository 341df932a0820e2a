//! What is accepted is delivered, and what is refused says why: each story against a control plane of its own.
