# syntax=docker/dockerfile:1
#
# Two images, each with one program and what it is linked to; no shell, no package manager, not root:
#
#   docker build --target control-plane --tag posthaste-control-plane:0.1.0 .
#   docker build --target agent --tag posthaste-agent:0.1.0 .

# The same Debian release as the final stages: a program needs the C library that it was linked to, or a newer one.
FROM docker.io/library/rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked -p posthaste-control-plane -p posthaste-agent \
    && install -D -t /out target/release/posthaste-control-plane target/release/posthaste-agent

# The base brings glibc and libgcc_s; tests/chart runs the programs with these and the files below, and nothing else.
FROM gcr.io/distroless/cc-debian12:nonroot AS control-plane
COPY --from=build /out/posthaste-control-plane /usr/local/bin/posthaste-control-plane
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/posthaste/
USER 65532:65532
EXPOSE 7420 7421
ENTRYPOINT ["/usr/local/bin/posthaste-control-plane"]

FROM gcr.io/distroless/cc-debian12:nonroot AS agent
COPY --from=build /out/posthaste-agent /usr/local/bin/posthaste-agent
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/posthaste/
USER 65532:65532
EXPOSE 7431
ENTRYPOINT ["/usr/local/bin/posthaste-agent"]
