# One node of Palisade, or one of its commands, in an image of some tens of megabytes.
#
#   docker build -t palisade .      builds the program from this folder; the images below come from a registry
#   scripts/image.sh                without a registry: from this machine's files, and a program that was built outside
#
# Any builder will do, the one before BuildKit as well.

# Has Rust, and no newer libc than the base.
ARG BUILD_IMAGE=rust:1.95-bookworm
# Has libc, libgcc and what libc needs to resolve names. A static program in an empty image resolves none.
ARG BASE_IMAGE=gcr.io/distroless/cc-debian12

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY . .
# A context that brings the program has nothing to compile.
RUN mkdir -p data prebuilt \
    && if [ ! -x prebuilt/palisade ]; then \
        CARGO_PROFILE_RELEASE_STRIP=true cargo build --release --locked --bin palisade \
        && cp target/release/palisade prebuilt/; \
    fi

FROM ${BASE_IMAGE}
COPY --from=build /src/prebuilt/palisade /usr/local/bin/palisade
# A new volume takes over the owner of the folder that it is mounted at.
COPY --from=build --chown=65532:65532 /src/data /var/lib/palisade
USER 65532:65532
# A leader hands the lead over before it ends.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/palisade"]
