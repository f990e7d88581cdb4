//! A thread that does blocking work beside a loop, one job after another.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Stack of the thread in bytes: system calls and a log line need little.
const STACK_BYTES: usize = 256 * 1024;

/// Gives jobs to the thread. Dropping it waits until those that were given are done.
#[derive(Debug)]
pub(crate) struct Worker<J> {
    /// `None` once it is being dropped.
    jobs: Option<Sender<J>>,
    thread: Option<JoinHandle<()>>,
}

impl<J: Send + 'static> Worker<J> {
    /// Starts the thread: `work` is given the jobs, and ends when there will be no more.
    pub fn start(name: &str, work: impl FnOnce(Receiver<J>) + Send + 'static) -> io::Result<Worker<J>> {
        Worker::with_stack(name, STACK_BYTES, work)
    }

    /// The same, with a stack of so many bytes.
    pub fn with_stack(
        name: &str,
        stack_bytes: usize,
        work: impl FnOnce(Receiver<J>) + Send + 'static,
    ) -> io::Result<Worker<J>> {
        let (jobs, waiting) = channel();
        let thread = Builder::new().name(name.to_string()).stack_size(stack_bytes).spawn(move || work(waiting))?;
        Ok(Worker { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Gives it a job, which comes back if the thread has panicked.
    pub fn give(&self, job: J) -> Result<(), J> {
        match &self.jobs {
            Some(jobs) => jobs.send(job).map_err(|error| error.0),
            None => Err(job),
        }
    }
}

impl<J> Drop for Worker<J> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported on standard error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_are_done_before_it_is_gone_and_one_that_cannot_be_done_comes_back() {
        let (sum, total) = channel();
        let worker = Worker::start("sums", move |jobs: Receiver<u32>| sum.send(jobs.iter().sum::<u32>()).unwrap());
        let worker = worker.unwrap();
        (1..=100).for_each(|job| worker.give(job).unwrap());
        drop(worker);
        assert_eq!(total.try_recv(), Ok(5050));
        let dead = Worker::start("dead", |jobs: Receiver<u32>| drop(jobs)).unwrap();
        while dead.give(7).is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(dead.give(8), Err(8));
    }
}
