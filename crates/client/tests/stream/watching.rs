//! A watch of which the test writes what is told.

use std::pin::Pin;

use palisade_proto::v1;
use palisade_proto::v1::watch_message::Message;
use palisade_proto::v1::watches_server::Watches;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// One watch, as the node sees it. Dropped, it ends.
pub(crate) struct Telling {
    pub(crate) request: v1::WatchRequest,
    messages: mpsc::Sender<Result<v1::WatchMessage, Status>>,
}

impl Telling {
    pub(crate) async fn tell(&self, message: Message) {
        let message = v1::WatchMessage { message: Some(message) };
        self.messages.send(Ok(message)).await.expect("somebody watches");
    }
}

pub(crate) struct Watching(pub(crate) mpsc::Sender<Telling>);

type Messages = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::WatchMessage, Status>> + Send>>;

#[tonic::async_trait]
impl Watches for Watching {
    type WatchStream = Messages;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Messages>, Status> {
        let (messages, told) = mpsc::channel(16);
        let telling = Telling { request: request.into_inner(), messages };
        self.0.send(telling).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(told))))
    }

    async fn history(&self, _: Request<v1::GetHistory>) -> Result<Response<v1::HistoryPage>, Status> {
        Err(Status::unimplemented("clients use the stream"))
    }

    async fn audit(&self, _: Request<v1::GetAudit>) -> Result<Response<v1::AuditPage>, Status> {
        Err(Status::unimplemented("clients use the stream"))
    }
}
