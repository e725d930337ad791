use palisade_proto::v1::{self, request, response, sequencers_server};
use tonic::{Request, Response, Status};

use super::call;
use super::sessions::unexpected;
use crate::door::Door;
use crate::{error, signer, single};

pub(super) struct Sequencers(pub(super) Door);

#[tonic::async_trait]
impl sequencers_server::Sequencers for Sequencers {
    async fn get(
        &self,
        request: Request<v1::GetSequencerCall>,
    ) -> Result<Response<v1::SequencerAnswer>, Status> {
        let asked = request.into_inner();
        let get = request::Op::Sequencer(asked.sequencer.unwrap_or_default());
        match call(&self.0, Some((asked.session, asked.secret)), get).await? {
            response::Result::Sequencer(answer) => Ok(Response::new(answer)),
            _ => Err(unexpected()),
        }
    }

    async fn check(&self, request: Request<v1::Check>) -> Result<Response<v1::CheckAnswer>, Status> {
        let answer = single::check(&self.0, request.into_inner()).await;
        answer.map(Response::new).map_err(|error| error::status(&error))
    }

    async fn keys(&self, _: Request<v1::KeysRequest>) -> Result<Response<v1::KeysAnswer>, Status> {
        let jwks = self.0.replica.read(|table| signer::jwks(&signer::KeySet::of(table)));
        Ok(Response::new(v1::KeysAnswer { jwks }))
    }
}
