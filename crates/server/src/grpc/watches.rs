use palisade_proto::convert;
use palisade_proto::v1::{self, request, response, watches_server};
use tonic::{Request, Response, Status};

use super::call;
use super::sessions::unexpected;
use crate::door::Door;
use crate::error;
use crate::watches::{self, Frames, Watching};

pub(super) struct Watches(pub(super) Door);

#[tonic::async_trait]
impl watches_server::Watches for Watches {
    type WatchStream = Frames<v1::WatchMessage>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.0.coordinator.metrics.request("watch");
        let asked = convert::watch::watch(&request.into_inner());
        let (filter, from) = asked.map_err(|bad| error::status(&bad.into()))?;
        let frames =
            watches::open::<Watching>(&self.0, filter, from).map_err(|error| error::status(&error))?;
        Ok(Response::new(frames))
    }

    async fn history(&self, request: Request<v1::GetHistory>) -> Result<Response<v1::HistoryPage>, Status> {
        match call(&self.0, None, request::Op::History(request.into_inner())).await? {
            response::Result::History(page) => Ok(Response::new(page)),
            _ => Err(unexpected()),
        }
    }

    async fn audit(&self, request: Request<v1::GetAudit>) -> Result<Response<v1::AuditPage>, Status> {
        match call(&self.0, None, request::Op::Audit(request.into_inner())).await? {
            response::Result::Audit(page) => Ok(Response::new(page)),
            _ => Err(unexpected()),
        }
    }
}
