-- trace_context
-- Where in a trace an event was committed: 16 bytes of trace and 8 of span. Only for events whose Emit was sampled; the others
-- pay one bit for it.
ALTER TABLE posthaste.event ADD COLUMN trace_context bytea CHECK (octet_length(trace_context) = 24);
