use palisade_proto::v1::{self, locks_server, request, response};
use tonic::{Request, Response, Status};

use super::call;
use super::sessions::unexpected;
use crate::door::Door;

pub(super) struct Locks(pub(super) Door);

#[tonic::async_trait]
impl locks_server::Locks for Locks {
    async fn acquire(&self, request: Request<v1::AcquireCall>) -> Result<Response<v1::Grant>, Status> {
        let asked = request.into_inner();
        let acquire = request::Op::Acquire(asked.acquire.unwrap_or_default());
        match call(&self.0, Some((asked.session, asked.secret)), acquire).await? {
            response::Result::Granted(grant) => Ok(Response::new(grant)),
            _ => Err(unexpected()),
        }
    }

    async fn release(&self, request: Request<v1::ReleaseCall>) -> Result<Response<v1::Released>, Status> {
        let asked = request.into_inner();
        let release = request::Op::Release(asked.release.unwrap_or_default());
        match call(&self.0, Some((asked.session, asked.secret)), release).await? {
            response::Result::Released(released) => Ok(Response::new(released)),
            _ => Err(unexpected()),
        }
    }

    async fn cancel(&self, request: Request<v1::CancelCall>) -> Result<Response<v1::Cancelled>, Status> {
        let asked = request.into_inner();
        let cancel = request::Op::Cancel(asked.cancel.unwrap_or_default());
        match call(&self.0, Some((asked.session, asked.secret)), cancel).await? {
            response::Result::Cancelled(cancelled) => Ok(Response::new(cancelled)),
            _ => Err(unexpected()),
        }
    }

    async fn get(&self, request: Request<v1::GetLock>) -> Result<Response<v1::LockView>, Status> {
        match call(&self.0, None, request::Op::GetLock(request.into_inner())).await? {
            response::Result::Lock(view) => Ok(Response::new(view)),
            _ => Err(unexpected()),
        }
    }

    async fn list(&self, request: Request<v1::ListLocks>) -> Result<Response<v1::LockList>, Status> {
        match call(&self.0, None, request::Op::ListLocks(request.into_inner())).await? {
            response::Result::Locks(list) => Ok(Response::new(list)),
            _ => Err(unexpected()),
        }
    }
}
