//! Compiles the protos with a pure Rust compiler, so that no `protoc` is needed.

use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let files = [
        "palisade/v1/types.proto",
        "palisade/v1/session.proto",
        "palisade/v1/lock.proto",
        "palisade/v1/sequencer.proto",
        "palisade/v1/cluster.proto",
        "palisade/v1/watch.proto",
        "palisade/v1/fence.proto",
        "palisade/v1/operator.proto",
        "palisade/raft/v1/peer.proto",
        "palisade/raft/v1/relay.proto",
    ];
    let descriptors = protox::compile(files, [&root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("palisade.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".palisade.raft.v1").compile_fds(descriptors)?;
    Ok(())
}
