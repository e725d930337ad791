use palisade_proto::v1::{self, request, response, sequencers_server};
use tonic::{Request, Response, Status};

use super::sessions::unexpected;
use super::{Door, single};
use crate::error;
use crate::signer;

pub(super) struct Sequencers(pub(super) Door);

#[tonic::async_trait]
impl sequencers_server::Sequencers for Sequencers {
    async fn get(
        &self,
        request: Request<v1::GetSequencerCall>,
    ) -> Result<Response<v1::SequencerAnswer>, Status> {
        let call = request.into_inner();
        let get = request::Op::Sequencer(call.sequencer.unwrap_or_default());
        match single::call(&self.0, Some((call.session, call.secret)), get).await? {
            response::Result::Sequencer(answer) => Ok(Response::new(answer)),
            _ => Err(unexpected()),
        }
    }

    /// A verdict that this node's own state settles needs no leader.
    async fn check(&self, request: Request<v1::Check>) -> Result<Response<v1::CheckAnswer>, Status> {
        let check = request.into_inner();
        let coordinator = &self.0.coordinator;
        let questions = coordinator.questions(&check).await.map_err(|error| error::status(&error))?;
        if let Some(answer) = coordinator.answer_from_applied(&questions) {
            return Ok(Response::new(answer));
        }
        match single::call(&self.0, None, request::Op::Check(check)).await? {
            response::Result::Check(answer) => Ok(Response::new(answer)),
            _ => Err(unexpected()),
        }
    }

    async fn keys(&self, _: Request<v1::KeysRequest>) -> Result<Response<v1::KeysAnswer>, Status> {
        let jwks = self.0.replica.read(|table| signer::jwks(&signer::KeySet::of(table)));
        Ok(Response::new(v1::KeysAnswer { jwks }))
    }
}
