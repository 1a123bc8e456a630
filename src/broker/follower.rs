//! Carries out what the metadata log says: dynamic settings take effect, and
//! partitions are led, followed, created and deleted.
//!
//! On a thread of its own, for it creates files: a topic of a thousand partitions
//! must not hold up requests.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::warn;

use crate::cluster::{ClusterDelta, ClusterImage, ConfigResource, Settings};
use crate::config::RuntimeConfig;
use crate::sys::thread::{Priority, spawn};
use crate::types::{BrokerId, Offset};

/// Does what lies between two images.
pub type Apply = dyn Fn(&ClusterDelta, &ClusterImage) + Send;

/// The thread, and how far it is.
#[derive(Debug)]
pub struct Follower {
    /// The last metadata record that has taken effect.
    pub applied: watch::Receiver<Offset>,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Follower {
    /// Follows `images`, beginning with nothing: the first image is a change of
    /// everything.
    pub fn start(
        mut images: watch::Receiver<Arc<ClusterImage>>,
        apply: Box<Apply>,
        runtime: Handle,
    ) -> io::Result<Self> {
        let (progress, applied) = watch::channel(Offset::NONE);
        let (stop, mut stopped) = watch::channel(false);
        let thread = spawn("metadata-follower", Priority::Normal, move || {
            let mut before = Arc::new(ClusterImage::empty(""));
            images.mark_changed();
            loop {
                let changed = runtime.block_on(async {
                    tokio::select! {
                        changed = images.changed() => changed.is_ok(),
                        _ = stopped.wait_for(|stop| *stop) => false,
                    }
                });
                if !changed {
                    return;
                }
                let image = images.borrow_and_update().clone();
                apply(&ClusterDelta::between(&before, &image), &image);
                progress.send_replace(image.offset);
                before = image;
            }
        })?;
        Ok(Self { applied, stop, thread })
    }

    /// Ends after the image that is being applied.
    pub fn stop(self) {
        self.stop.send_replace(true);
        let _ = self.thread.join();
    }
}

/// Puts the dynamic settings of the image in force; true if they have changed.
pub fn apply_settings(
    config: &RuntimeConfig,
    node: BrokerId,
    delta: &ClusterDelta,
    image: &ClusterImage,
) -> bool {
    let (own, all) = (ConfigResource::broker(node), ConfigResource::all_brokers());
    if !delta.configs.iter().any(|resource| *resource == own || *resource == all) {
        return false;
    }
    let nothing = Settings::default();
    let of = |resource| image.settings(resource).unwrap_or(&nothing);
    for problem in config.apply(of(&all), of(&own)) {
        warn!("A dynamic setting has no effect: {problem}");
    }
    true
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn every_image_takes_effect_before_it_counts_as_applied() {
        let image = |offset| {
            let mut image = ClusterImage::empty("cluster");
            image.offset = Offset(offset);
            Arc::new(image)
        };
        let (images, receiver) = watch::channel(image(3));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let apply = {
            let seen = seen.clone();
            Box::new(move |_: &ClusterDelta, image: &ClusterImage| seen.lock().push(image.offset))
        };
        let follower = Follower::start(receiver, apply, Handle::current()).unwrap();
        let mut applied = follower.applied.clone();
        applied.wait_for(|offset| *offset == Offset(3)).await.unwrap();
        images.send_replace(image(8));
        applied.wait_for(|offset| *offset == Offset(8)).await.unwrap();
        follower.stop();
        assert_eq!(*seen.lock(), [Offset(3), Offset(8)]);
    }
}
