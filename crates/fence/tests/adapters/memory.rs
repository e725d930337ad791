use palisade_core::holding::Holding;
use palisade_fence::adapters::memory::MemoryResource;
use palisade_fence::admit::HighWaterMark;
use palisade_fence::conformance::Subject;
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::verifier::SignedFloor;

struct Lines(Guard<MemoryResource<Vec<String>>>);

fn lines(scope: Scope) -> Lines {
    Lines(Guard::new(MemoryResource::new(Vec::new()), scope))
}

impl Subject for Lines {
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        self.0.claim(holding).map(drop)
    }

    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        self.0.write(holding, |lines| {
            lines.push(line.to_owned());
            Ok(())
        })
    }

    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        self.0.raise(floor)
    }

    fn lines(&self) -> Vec<String> {
        self.0.adapter().read(Clone::clone).unwrap()
    }

    fn reopen(self) -> Self {
        self
    }

    fn append_past_the_guard(&self, line: &str) {
        self.0.adapter().unguarded(|lines| lines.push(line.to_owned())).unwrap();
    }

    // The types leave no way.
    fn append_bare(&self, _: &str) -> Option<Result<(), FenceError>> {
        None
    }

    // The data dies with its process, and the marks with the data.
    fn die_before_the_commit(self, _: &dyn Holding, _: &str) -> Option<Self> {
        None
    }

    fn lose_marks(self) -> Option<Self> {
        None
    }
}

#[test]
fn memory_is_fenced_in_random_runs() {
    super::random_runs("memory", lines);
}
