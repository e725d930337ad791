use std::sync::Arc;

use futures_util::StreamExt;
use palisade_proto::v1::{self, request, response, sessions_server};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::{Door, single};
use crate::stream::{EdgeStream, Frames};

pub(super) struct Sessions(pub(super) Door);

#[tonic::async_trait]
impl sessions_server::Sessions for Sessions {
    type StreamStream = Frames;

    async fn stream(&self, request: Request<Streaming<v1::ClientFrame>>) -> Result<Response<Frames>, Status> {
        let door = &self.0;
        if door.router.stream_count() >= door.coordinator.config.door.streams_max {
            return Err(Status::resource_exhausted("this node has all the client streams that it may have"));
        }
        let stream = door.router.open(&door.coordinator, door.principal(), false);
        let open = CancellationToken::new();
        let queue = stream.queue.clone();
        tokio::spawn(read(stream, request.into_inner(), open.clone()));
        Ok(Response::new(Frames { queue, _open: open.drop_guard() }))
    }

    async fn open(
        &self,
        request: Request<v1::OpenSessionCall>,
    ) -> Result<Response<v1::SessionOpened>, Status> {
        let open = request.into_inner().open.unwrap_or_default();
        match single::call(&self.0, None, request::Op::Open(open)).await? {
            response::Result::Opened(opened) => Ok(Response::new(opened)),
            _ => Err(unexpected()),
        }
    }

    async fn keep_alive(&self, request: Request<v1::KeepAliveCall>) -> Result<Response<v1::Renewed>, Status> {
        let call = request.into_inner();
        single::keep_alive(&self.0, call.session, call.secret).await.map(Response::new)
    }

    async fn close(
        &self,
        request: Request<v1::CloseSessionCall>,
    ) -> Result<Response<v1::SessionClosed>, Status> {
        let call = request.into_inner();
        let close = request::Op::Close(v1::CloseSession {});
        match single::call(&self.0, Some((call.session, call.secret)), close).await? {
            response::Result::Closed(closed) => Ok(Response::new(closed)),
            _ => Err(unexpected()),
        }
    }
}

/// Reads a client's frames until either half of the stream ends.
async fn read(stream: Arc<EdgeStream>, mut frames: Streaming<v1::ClientFrame>, open: CancellationToken) {
    loop {
        let frame = tokio::select! {
            frame = frames.next() => frame,
            () = open.cancelled() => return,
        };
        let ended = match frame {
            Some(Ok(frame)) => stream.frame(frame).await.err(),
            Some(Err(status)) => Some(status),
            None => Some(Status::ok("")),
        };
        if let Some(status) = ended {
            stream.queue.end(status);
            return;
        }
    }
}

pub(super) fn unexpected() -> Status {
    Status::internal("the answer is of another kind than the question")
}
