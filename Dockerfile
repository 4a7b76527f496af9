# A small image with only the binary, which runs as an unprivileged user. Not built yet, because no container engine was
# available.
FROM rust:1-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p tidegate-cli

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/tidegate /usr/local/bin/tidegate
COPY tidegate.toml /etc/tidegate/tidegate.toml
# Loopback is not reachable from outside a container. If you publish these ports, set TIDEGATE_SERVER_ADMIN_TOKEN, too.
ENV TIDEGATE_SERVER_HTTP=0.0.0.0:8080 TIDEGATE_SERVER_RESP=0.0.0.0:6380 TIDEGATE_SERVER_GRPC=0.0.0.0:8081
EXPOSE 8080 6380 8081
USER nonroot
ENTRYPOINT ["/usr/local/bin/tidegate", "serve"]
CMD ["--config", "/etc/tidegate/tidegate.toml"]
