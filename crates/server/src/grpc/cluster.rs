use palisade_proto::v1::{self, cluster_server};
use tonic::{Request, Response, Status};

use crate::door::Door;
use crate::status;

pub(super) struct Cluster(pub(super) Door);

#[tonic::async_trait]
impl cluster_server::Cluster for Cluster {
    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusAnswer>, Status> {
        let door = &self.0;
        let local = request.into_inner().local;
        Ok(Response::new(status::cluster(&door.coordinator, &door.router, &door.replica, local).await))
    }
}
