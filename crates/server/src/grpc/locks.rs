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

    async fn downgrade(
        &self,
        request: Request<v1::DowngradeCall>,
    ) -> Result<Response<v1::Downgraded>, Status> {
        let asked = request.into_inner();
        let downgrade = request::Op::Downgrade(asked.downgrade.unwrap_or_default());
        match call(&self.0, Some((asked.session, asked.secret)), downgrade).await? {
            response::Result::Downgraded(downgraded) => Ok(Response::new(downgraded)),
            _ => Err(unexpected()),
        }
    }

    async fn hand_over(
        &self,
        request: Request<v1::HandOverCall>,
    ) -> Result<Response<v1::HandedOver>, Status> {
        let asked = request.into_inner();
        let hand_over = request::Op::HandOver(asked.hand_over.unwrap_or_default());
        match call(&self.0, Some((asked.session, asked.secret)), hand_over).await? {
            response::Result::HandedOver(handed_over) => Ok(Response::new(handed_over)),
            // A repeat: it is another's already, or was.
            response::Result::Released(_) => Ok(Response::new(v1::HandedOver::default())),
            _ => Err(unexpected()),
        }
    }

    async fn set_metadata(
        &self,
        request: Request<v1::SetMetadataCall>,
    ) -> Result<Response<v1::Written>, Status> {
        let asked = request.into_inner();
        let set = request::Op::SetMetadata(asked.set_metadata.unwrap_or_default());
        match call(&self.0, Some((asked.session, asked.secret)), set).await? {
            response::Result::Written(written) => Ok(Response::new(written)),
            _ => Err(unexpected()),
        }
    }

    async fn set_baton(&self, request: Request<v1::SetBatonCall>) -> Result<Response<v1::Written>, Status> {
        let asked = request.into_inner();
        let set = request::Op::SetBaton(asked.set_baton.unwrap_or_default());
        match call(&self.0, Some((asked.session, asked.secret)), set).await? {
            response::Result::Written(written) => Ok(Response::new(written)),
            _ => Err(unexpected()),
        }
    }

    async fn report_progress(
        &self,
        request: Request<v1::ReportProgressCall>,
    ) -> Result<Response<v1::Reported>, Status> {
        let asked = request.into_inner();
        let report = request::Op::ReportProgress(asked.report_progress.unwrap_or_default());
        match call(&self.0, Some((asked.session, asked.secret)), report).await? {
            response::Result::Reported(reported) => Ok(Response::new(reported)),
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
