use palisade_proto::convert;
use palisade_proto::v1::{self, fences_server};
use tonic::{Request, Response, Status};

use crate::door::Door;
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
}
