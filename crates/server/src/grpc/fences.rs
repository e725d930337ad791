use palisade_proto::convert;
use palisade_proto::v1::{self, fences_server, request, response};
use tonic::{Request, Response, Status};

use super::call;
use super::sessions::unexpected;
use crate::door::{Door, client_of};
use crate::error;
use crate::watches::{self, Feeding, Frames};

pub(super) struct Fences(pub(super) Door);

#[tonic::async_trait]
impl fences_server::Fences for Fences {
    type FeedStream = Frames<v1::FeedMessage>;

    async fn feed(&self, request: Request<v1::FeedRequest>) -> Result<Response<Self::FeedStream>, Status> {
        self.0.coordinator.metrics.request("feed");
        let asked = convert::fence::feed(&request.into_inner());
        let (filter, from) = asked.map_err(|bad| error::status(&bad.into()))?;
        let frames =
            watches::open::<Feeding>(&self.0, filter, from).map_err(|error| error::status(&error))?;
        Ok(Response::new(frames))
    }

    async fn floor(&self, request: Request<v1::FloorRequest>) -> Result<Response<v1::SignedFloor>, Status> {
        self.0.coordinator.metrics.request("floor");
        let signed = self.0.coordinator.signed_floor(&request.into_inner()).await;
        signed.map(Response::new).map_err(|error| error::status(&error))
    }

    async fn report(
        &self,
        request: Request<v1::RejectionReport>,
    ) -> Result<Response<v1::ReportTaken>, Status> {
        let admitted = self.0.admit_reports(client_of(request.extensions()), 1);
        admitted.map_err(|error| error::status(&error))?;
        match call(&self.0, None, request::Op::ReportRejections(request.into_inner())).await? {
            response::Result::ReportTaken(taken) => Ok(Response::new(taken)),
            _ => Err(unexpected()),
        }
    }

    async fn rejections(
        &self,
        request: Request<v1::ListRejections>,
    ) -> Result<Response<v1::RejectionList>, Status> {
        match call(&self.0, None, request::Op::ListRejections(request.into_inner())).await? {
            response::Result::Rejections(list) => Ok(Response::new(list)),
            _ => Err(unexpected()),
        }
    }
}
