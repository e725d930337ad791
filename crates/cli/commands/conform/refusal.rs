//! How a service says no, over HTTP and in gRPC, as docs/adapters/services.md has it.

use tonic::Code;

use super::subject::{Outcome, wrong};
use super::wire::{Answer, Protocol, Status, code_name};

/// Which refusal is expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    http: &'static [u16],
    grpc: &'static [Code],
}

impl Refusal {
    pub(super) const STALE: Self = Self { http: &[412], grpc: &[Code::FailedPrecondition] };
    pub(super) const MISSING: Self = Self { http: &[428], grpc: &[Code::FailedPrecondition] };
    pub(super) const MALFORMED: Self = Self { http: &[400], grpc: &[Code::InvalidArgument] };
    pub(super) const UNPROVED: Self = Self { http: &[401], grpc: &[Code::Unauthenticated] };
    pub(super) const WRONG_LOCK: Self = Self { http: &[403], grpc: &[Code::PermissionDenied] };
    pub(super) const WRONG_MODE: Self = Self::WRONG_LOCK;
    /// Its key is unknown, or its cluster is another: the service may look at either first.
    pub(super) const OTHER_CLUSTER: Self =
        Self { http: &[401, 403], grpc: &[Code::Unauthenticated, Code::PermissionDenied] };
    /// It is stale, or another write came in between, or the resource is busy.
    pub(super) const OF_A_RACE: Self =
        Self { http: &[412, 409, 503], grpc: &[Code::FailedPrecondition, Code::Aborted, Code::Unavailable] };

    pub(super) fn is(self, status: Status) -> bool {
        match status {
            Status::Http(status) => self.http.contains(&status.as_u16()),
            Status::Grpc(code) => self.grpc.contains(&code),
        }
    }

    /// Wrong unless `what` was refused in this way.
    pub(super) fn check(self, what: &str, answer: &Answer) -> Outcome {
        let said = answer.status;
        if self.is(said) {
            return Ok(());
        }
        let expected = self.named(said.protocol());
        Err(wrong(if said.is_success() {
            format!("{what} was taken ({said}); it must be refused with {expected}")
        } else {
            format!("{what} was refused, but with {said} in place of {expected}")
        }))
    }

    fn named(self, protocol: Protocol) -> String {
        let names: Vec<String> = match protocol {
            Protocol::Http => self.http.iter().map(u16::to_string).collect(),
            Protocol::Grpc => self.grpc.iter().map(|code| code_name(*code)).collect(),
        };
        names.join(" or ")
    }
}
