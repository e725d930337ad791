//! Single calls of gRPC, as a simple client makes them.

use palisade_proto::convert::error::error_of;
use palisade_proto::v1;
use palisade_proto::v1::locks_client::LocksClient;
use tonic::Status;
use tonic::transport::Channel;

use super::{LOOK, RawSession, eventually};

/// A session that calls one node.
#[derive(Clone)]
pub(crate) struct Caller {
    locks: LocksClient<Channel>,
    pub(crate) session: RawSession,
}

impl Caller {
    pub(crate) fn new(channel: Channel, session: &RawSession) -> Self {
        Self { locks: LocksClient::new(channel), session: session.clone() }
    }

    /// As its calls name it.
    pub(crate) fn id(&self, number: u64) -> Option<v1::AcquisitionId> {
        Some(v1::AcquisitionId { session: self.session.id, number })
    }

    pub(crate) async fn acquire(&mut self, acquire: v1::Acquire) -> Result<v1::Grant, Status> {
        let RawSession { id: session, secret } = self.session.clone();
        let call = v1::AcquireCall { session, secret, acquire: Some(acquire) };
        Ok(self.locks.acquire(call).await?.into_inner())
    }

    /// Waits for a lock as long as it takes, over changes of leader.
    pub(crate) async fn wait_for(mut self, acquire: v1::Acquire) -> Result<v1::Grant, Status> {
        loop {
            match self.acquire(acquire.clone()).await {
                Err(status) if is_passing(&status) => tokio::time::sleep(LOOK).await,
                answer => return answer,
            }
        }
    }

    pub(crate) async fn release(&mut self, release: v1::Release) -> Result<v1::Released, Status> {
        let RawSession { id: session, secret } = self.session.clone();
        let call = v1::ReleaseCall { session, secret, release: Some(release) };
        Ok(self.locks.release(call).await?.into_inner())
    }

    pub(crate) async fn downgrade(&mut self, downgrade: v1::Downgrade) -> Result<v1::Grant, Status> {
        let RawSession { id: session, secret } = self.session.clone();
        let call = v1::DowngradeCall { session, secret, downgrade: Some(downgrade) };
        Ok(self.locks.downgrade(call).await?.into_inner().grant.unwrap_or_default())
    }

    pub(crate) async fn hand_over(&mut self, hand_over: v1::HandOver) -> Result<v1::HandedOver, Status> {
        let RawSession { id: session, secret } = self.session.clone();
        let call = v1::HandOverCall { session, secret, hand_over: Some(hand_over) };
        Ok(self.locks.hand_over(call).await?.into_inner())
    }

    pub(crate) async fn set_metadata(&mut self, set: v1::SetMetadata) -> Result<u64, Status> {
        let RawSession { id: session, secret } = self.session.clone();
        let call = v1::SetMetadataCall { session, secret, set_metadata: Some(set) };
        Ok(self.locks.set_metadata(call).await?.into_inner().revision)
    }

    pub(crate) async fn set_baton(&mut self, set: v1::SetBaton) -> Result<u64, Status> {
        let RawSession { id: session, secret } = self.session.clone();
        let call = v1::SetBatonCall { session, secret, set_baton: Some(set) };
        Ok(self.locks.set_baton(call).await?.into_inner().revision)
    }

    pub(crate) async fn report(&mut self, report: v1::ReportProgress) -> Result<(), Status> {
        let RawSession { id: session, secret } = self.session.clone();
        let call = v1::ReportProgressCall { session, secret, report_progress: Some(report) };
        self.locks.report_progress(call).await.map(drop)
    }
}

/// The stable name of the error that a call was answered with.
pub(crate) fn status_name(status: &Status) -> String {
    error_of(status).map(|error| error.name).unwrap_or_default()
}

fn is_passing(status: &Status) -> bool {
    ["", "NOT_LEADER", "NO_QUORUM", "OUTCOME_UNKNOWN", "OVERLOADED"].contains(&status_name(status).as_str())
}

/// Repeats a call until it is answered otherwise than by what a change of leader brings.
pub(crate) async fn insist<T>(
    what: &str,
    mut call: impl AsyncFnMut() -> Result<T, Status>,
) -> Result<T, Status> {
    eventually(what, async || match call().await {
        Err(status) if is_passing(&status) => None,
        answer => Some(answer),
    })
    .await
}
