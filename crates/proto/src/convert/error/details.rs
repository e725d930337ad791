//! An error as the status of a unary call: the whole of it among the details, and beside it what stock clients of
//! gRPC look for (`google.rpc.ErrorInfo` and `RetryInfo`).

use std::collections::BTreeMap;

use prost::Message;
use tonic::Status;

use super::{error_code, facts};
use crate::v1;

/// `google.rpc.Status`, in which stock clients look for the details of an error.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: BTreeMap<String, String>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

const ERROR_URL: &str = "type.googleapis.com/palisade.v1.Error";
const INFO_URL: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const RETRY_URL: &str = "type.googleapis.com/google.rpc.RetryInfo";
/// Whose reasons they are.
const DOMAIN: &str = "palisade";

/// As the status of a unary call.
pub fn status_of(error: &v1::Error) -> Status {
    let (code, _) = error_code(&error.name);
    let message = format!("{}: {}", error.name, error.message);
    let metadata = facts(error).into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect();
    let info = ErrorInfo { reason: error.name.clone(), domain: DOMAIN.to_owned(), metadata };
    let mut details = vec![any(ERROR_URL, error), any(INFO_URL, &info)];
    if error.retry_after_ms > 0 {
        let seconds = i64::try_from(error.retry_after_ms / 1_000).unwrap_or(i64::MAX);
        let nanos = i32::try_from(error.retry_after_ms % 1_000).unwrap_or(0) * 1_000_000;
        let retry = RetryInfo { retry_delay: Some(prost_types::Duration { seconds, nanos }) };
        details.push(any(RETRY_URL, &retry));
    }
    let status = RpcStatus { code: code as i32, message: message.clone(), details };
    Status::with_details(code, message, status.encode_to_vec().into())
}

fn any(url: &str, message: &impl Message) -> prost_types::Any {
    prost_types::Any { type_url: url.to_owned(), value: message.encode_to_vec() }
}

/// The error among the details of a status; none when the status is not one of `status_of`.
pub fn error_of(status: &Status) -> Option<v1::Error> {
    let details = RpcStatus::decode(status.details()).ok()?.details;
    let detail = details.into_iter().find(|detail| detail.type_url == ERROR_URL)?;
    v1::Error::decode(detail.value.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::super::{ErrorName, no_quorum};
    use super::*;

    fn detail<T: Message + Default>(status: &Status, url: &str) -> Option<T> {
        let details = RpcStatus::decode(status.details()).expect("details").details;
        let detail = details.into_iter().find(|detail| detail.type_url == url)?;
        T::decode(detail.value.as_slice()).ok()
    }

    #[test]
    fn an_error_survives_the_status_of_a_unary_call() {
        let error = v1::Error { superseded_by: 52, ..ErrorName::NotHeld.error("superseded by token 52") };
        let status = status_of(&error);
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(error_of(&status), Some(error));
        assert_eq!(error_of(&Status::unavailable("connection refused")), None);
    }

    #[test]
    fn stock_clients_find_the_reason_the_facts_and_when_to_ask_again() {
        let acquisition = Some(v1::AcquisitionId { session: 7, number: 1 });
        let holder =
            v1::Holder { acquisition, client: "worker-b".into(), token: 34, ..v1::Holder::default() };
        let error = v1::Error { holder: Some(holder), waiting: 2, ..ErrorName::LockHeld.error("held") };
        let info: ErrorInfo = detail(&status_of(&error), INFO_URL).expect("an ErrorInfo");
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("LOCK_HELD", "palisade"));
        assert_eq!(
            (info.metadata["holder_client"].as_str(), info.metadata["holder_token"].as_str()),
            ("worker-b", "34")
        );
        assert_eq!(detail::<RetryInfo>(&status_of(&error), RETRY_URL), None);
        let retry: RetryInfo = detail(&status_of(&no_quorum(1_200)), RETRY_URL).expect("a RetryInfo");
        assert_eq!(retry.retry_delay, Some(prost_types::Duration { seconds: 1, nanos: 200_000_000 }));
    }

    #[test]
    fn a_cycle_is_among_the_details_and_the_facts() {
        let step = |owner: &str, lock: &str| v1::CycleStep {
            owner: owner.to_owned(),
            lock: lock.to_owned(),
            ..v1::CycleStep::default()
        };
        let cycle = vec![step("left", "a"), step("right", "b")];
        let error = v1::Error { cycle, ..ErrorName::WouldDeadlock.error("a cycle") };
        let status = status_of(&error);
        assert_eq!(error_of(&status), Some(error));
        let info: ErrorInfo = detail(&status, INFO_URL).expect("an ErrorInfo");
        assert_eq!(info.metadata["cycle"], r#""left" waits for "a", "right" waits for "b""#);
    }
}
