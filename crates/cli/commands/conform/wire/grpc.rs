//! One call of gRPC: a message in, and one or a stream of them out. What is in them is bytes here.

use std::error::Error;

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status, Streaming};

use super::{ANSWER_BYTES_MAX, Answer, Status as Answered};

pub(super) async fn exchange(
    address: &str,
    path: PathAndQuery,
    headers: HeaderMap,
    message: Vec<u8>,
) -> anyhow::Result<Answer> {
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let mut client = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    client.ready().await?;
    let metadata = MetadataMap::from_headers(headers);
    let request = Request::from_parts(metadata, Extensions::new(), Bytes::from(message));
    // On the wire a single answer is a stream that has one.
    let collected = match client.server_streaming(request, path, Raw).await {
        Ok(response) => collect(response.into_inner()).await,
        Err(status) => Err(status),
    };
    match collected {
        Ok(bytes) => Ok(Answer {
            status: Answered::Grpc(Code::Ok),
            body: String::from_utf8_lossy(&bytes).into_owned(),
        }),
        // One that the service sent has no source; one that the transport made of its failure has.
        Err(status) if status.source().is_some() => Err(status.into()),
        Err(status) => {
            Ok(Answer { status: Answered::Grpc(status.code()), body: status.message().to_owned() })
        }
    }
}

async fn collect(mut messages: Streaming<Bytes>) -> Result<Vec<u8>, Status> {
    let mut collected = Vec::new();
    while let Some(message) = messages.message().await? {
        if collected.len() + message.len() > ANSWER_BYTES_MAX {
            return Err(Status::out_of_range(format!("the answer has more than {ANSWER_BYTES_MAX} bytes")));
        }
        collected.extend_from_slice(&message);
    }
    Ok(collected)
}

/// Messages as they are on the wire.
#[derive(Clone, Copy, Debug)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
