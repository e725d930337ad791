use palisade_proto::v1::{self, operators_server, request, response};
use tonic::{Request, Response, Status};

use super::call;
use super::sessions::unexpected;
use crate::door::Door;

pub(super) struct Operators(pub(super) Door);

#[tonic::async_trait]
impl operators_server::Operators for Operators {
    async fn break_lock(&self, request: Request<v1::BreakLock>) -> Result<Response<v1::Broken>, Status> {
        match call(&self.0, None, request::Op::BreakLock(request.into_inner())).await? {
            response::Result::Broken(answer) => Ok(Response::new(answer)),
            _ => Err(unexpected()),
        }
    }

    async fn end_session(&self, request: Request<v1::EndSession>) -> Result<Response<v1::Stopped>, Status> {
        match call(&self.0, None, request::Op::EndSession(request.into_inner())).await? {
            response::Result::Stopped(answer) => Ok(Response::new(answer)),
            _ => Err(unexpected()),
        }
    }

    async fn set_capacity(
        &self,
        request: Request<v1::SetCapacity>,
    ) -> Result<Response<v1::SettingsSet>, Status> {
        match call(&self.0, None, request::Op::SetCapacity(request.into_inner())).await? {
            response::Result::Set(answer) => Ok(Response::new(answer)),
            _ => Err(unexpected()),
        }
    }

    async fn set_delay_rule(
        &self,
        request: Request<v1::SetDelayRule>,
    ) -> Result<Response<v1::SettingsSet>, Status> {
        match call(&self.0, None, request::Op::SetDelayRule(request.into_inner())).await? {
            response::Result::Set(answer) => Ok(Response::new(answer)),
            _ => Err(unexpected()),
        }
    }

    async fn set_settings(
        &self,
        request: Request<v1::SetSettings>,
    ) -> Result<Response<v1::SettingsSet>, Status> {
        match call(&self.0, None, request::Op::SetSettings(request.into_inner())).await? {
            response::Result::Set(answer) => Ok(Response::new(answer)),
            _ => Err(unexpected()),
        }
    }

    async fn get_settings(
        &self,
        request: Request<v1::GetSettings>,
    ) -> Result<Response<v1::Settings>, Status> {
        match call(&self.0, None, request::Op::GetSettings(request.into_inner())).await? {
            response::Result::Settings(answer) => Ok(Response::new(answer)),
            _ => Err(unexpected()),
        }
    }

    async fn confirm_floor(
        &self,
        request: Request<v1::ConfirmFloor>,
    ) -> Result<Response<v1::Confirmed>, Status> {
        match call(&self.0, None, request::Op::ConfirmFloor(request.into_inner())).await? {
            response::Result::Confirmed(answer) => Ok(Response::new(answer)),
            _ => Err(unexpected()),
        }
    }
}
