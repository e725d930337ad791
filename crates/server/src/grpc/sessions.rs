use std::net::IpAddr;
use std::sync::Arc;

use futures_util::StreamExt;
use palisade_proto::v1::{self, request, response, sessions_server};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::call;
use crate::door::{Door, client_of};
use crate::stream::{EdgeStream, Frames};
use crate::{error, single};

pub(super) struct Sessions(pub(super) Door);

#[tonic::async_trait]
impl sessions_server::Sessions for Sessions {
    type StreamStream = Frames;

    async fn stream(&self, request: Request<Streaming<v1::ClientFrame>>) -> Result<Response<Frames>, Status> {
        let door = self.0.clone();
        let client = client_of(request.extensions());
        if door.router.stream_count() >= door.coordinator.config.door.streams_max {
            return Err(Status::resource_exhausted("this node has all the client streams that it may have"));
        }
        let stream = door.router.open(&door.coordinator, door.principal(), false);
        let open = CancellationToken::new();
        let queue = stream.queue.clone();
        tokio::spawn(read(door, client, stream, request.into_inner(), open.clone()));
        Ok(Response::new(Frames { queue, _open: open.drop_guard() }))
    }

    async fn open(
        &self,
        request: Request<v1::OpenSessionCall>,
    ) -> Result<Response<v1::SessionOpened>, Status> {
        let open = request.into_inner().open.unwrap_or_default();
        match call(&self.0, None, request::Op::Open(open)).await? {
            response::Result::Opened(opened) => Ok(Response::new(opened)),
            _ => Err(unexpected()),
        }
    }

    async fn keep_alive(&self, request: Request<v1::KeepAliveCall>) -> Result<Response<v1::Renewed>, Status> {
        let asked = request.into_inner();
        let renewed = single::keep_alive(&self.0, asked.session, asked.secret).await;
        renewed.map(Response::new).map_err(|error| error::status(&error))
    }

    async fn list(&self, request: Request<v1::ListSessions>) -> Result<Response<v1::SessionList>, Status> {
        match call(&self.0, None, request::Op::ListSessions(request.into_inner())).await? {
            response::Result::Sessions(list) => Ok(Response::new(list)),
            _ => Err(unexpected()),
        }
    }

    async fn close(
        &self,
        request: Request<v1::CloseSessionCall>,
    ) -> Result<Response<v1::SessionClosed>, Status> {
        let asked = request.into_inner();
        let close = request::Op::Close(v1::CloseSession {});
        match call(&self.0, Some((asked.session, asked.secret)), close).await? {
            response::Result::Closed(closed) => Ok(Response::new(closed)),
            _ => Err(unexpected()),
        }
    }
}

/// Reads a client's frames until either half of the stream ends.
async fn read(
    door: Door,
    client: Option<IpAddr>,
    stream: Arc<EdgeStream>,
    mut frames: Streaming<v1::ClientFrame>,
    open: CancellationToken,
) {
    loop {
        let frame = tokio::select! {
            frame = frames.next() => frame,
            () = open.cancelled() => return,
        };
        let ended = match frame {
            Some(Ok(frame)) => take(&door, client, &stream, frame).await.err(),
            Some(Err(status)) => Some(status),
            None => Some(Status::ok("")),
        };
        if let Some(status) = ended {
            stream.queue.end(status);
            return;
        }
    }
}

/// Passes a frame on, without what its client asks too often.
async fn take(
    door: &Door,
    client: Option<IpAddr>,
    stream: &EdgeStream,
    mut frame: v1::ClientFrame,
) -> Result<(), Status> {
    if let Err(error) = door.admit(client, frame.requests.len()) {
        return stream.frame_refused(frame, &error).await;
    }
    let is_report = |request: &v1::Request| matches!(request.op, Some(request::Op::ReportRejections(_)));
    let reports = frame.requests.iter().filter(|request| is_report(request)).count();
    if reports > 0
        && let Err(error) = door.admit_reports(client, reports)
    {
        let (refused, rest) = frame.requests.into_iter().partition(is_report);
        frame.requests = rest;
        let refused = v1::ClientFrame { requests: refused, ..v1::ClientFrame::default() };
        stream.frame_refused(refused, &error).await?;
    }
    stream.frame(frame).await
}

pub(super) fn unexpected() -> Status {
    Status::internal("the answer is of another kind than the question")
}
