//! The image: made as on a machine without a registry, of the program under test.

use crate::engine::{docker, finally, said};

/// Small enough to be pulled in a moment. In bytes.
const SIZE_MAX: u64 = 60_000_000;

/// An image, removed when dropped.
pub(crate) struct Image {
    pub(crate) name: String,
}

impl Image {
    pub(crate) async fn make() -> Self {
        let image = Self { name: format!("palisade-test:{}", std::process::id()) };
        said("scripts/image.sh", &[env!("CARGO_BIN_EXE_palisade"), &image.name], &[]).await;
        image
    }

    /// It is small, and what runs in it is nobody in particular.
    pub(crate) async fn check(&self) {
        let size = docker(&["image", "inspect", "--format", "{{.Size}}", &self.name]).await;
        let size: u64 = size.parse().unwrap();
        assert!(size < SIZE_MAX, "the image has {size} bytes");
        let user = docker(&["image", "inspect", "--format", "{{.Config.User}}", &self.name]).await;
        assert_eq!(user, "65532:65532");
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        finally("docker", &["rmi", &self.name], &[]);
    }
}
