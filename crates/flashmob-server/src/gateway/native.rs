//! Native clients' side of the loop: calls come in over a channel, results go out to whoever waits for them.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use flashmob_core::gateway::{ClientId, Completion, Gateway, LocalExtents, NativeCall};
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::Time;
use slab::Slab;

use crate::net::Wake;

/// What a call comes to: the bytes of a read (empty for other operations), or why it failed.
pub type NativeResult = Result<Vec<u8>, Failure>;

/// A call under way. Await it, or [`Pending::wait`] for it.
#[derive(Debug)]
pub struct Pending {
    cell: Arc<Cell>,
}

#[derive(Debug, Default)]
struct Cell {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    result: Option<NativeResult>,
    waker: Option<Waker>,
}

impl Cell {
    fn finish(&self, result: NativeResult) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.result = Some(result);
        let waker = state.waker.take();
        drop(state);
        self.arrived.notify_one();
        // Without the lock: an executor may poll at once.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Pending {
    /// Blocks until the call has ended.
    pub fn wait(self) -> NativeResult {
        let mut state = self.cell.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = state.result.take() {
                return result;
            }
            state = self.cell.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Future for Pending {
    type Output = NativeResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NativeResult> {
        let mut state = self.cell.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A call on its way to the loop. If it is dropped on the way, whoever waits is told.
#[derive(Debug)]
struct Message {
    volume: usize,
    call: NativeCall,
    answer: Answer,
}

/// The end of a call at which its result is put in; a failure, if nobody puts one in.
#[derive(Debug)]
struct Answer(Option<Arc<Cell>>);

impl Answer {
    fn finish(mut self, result: NativeResult) {
        if let Some(cell) = self.0.take() {
            cell.finish(result);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            cell.finish(Err(Failure::ShuttingDown));
        }
    }
}

/// Makes calls to a running loop, from any thread.
#[derive(Debug, Clone)]
pub struct NativeHandle {
    messages: Sender<Message>,
    wake: Wake,
}

impl NativeHandle {
    /// Begins an operation on a volume; see [`NativeCall`] for spans and payload.
    #[must_use]
    pub fn call(&self, volume: usize, op: Op, flags: OpFlags, spans: Vec<(u64, u32)>, payload: Vec<u8>) -> Pending {
        let cell = Arc::new(Cell::default());
        let answer = Answer(Some(Arc::clone(&cell)));
        let call = NativeCall { cookie: 0, op, flags, spans, payload };
        // If the loop is gone the message is dropped, and its answer with it, which finishes the call.
        if self.messages.send(Message { volume, call, answer }).is_ok() {
            self.wake.wake();
        }
        Pending { cell }
    }
}

/// The loop's end.
#[derive(Debug)]
pub(super) struct NativeCalls {
    messages: Receiver<Message>,
    waiting: Slab<Answer>,
    /// The client that stands for all native callers of a volume.
    clients: Vec<Option<ClientId>>,
}

/// The two ends.
pub(super) fn native(wake: Wake, volumes: usize) -> (NativeHandle, NativeCalls) {
    let (sender, messages) = channel();
    (
        NativeHandle { messages: sender, wake },
        NativeCalls { messages, waiting: Slab::new(), clients: vec![None; volumes] },
    )
}

impl NativeCalls {
    /// Hands new calls to the gateway.
    pub fn take_calls(&mut self, gateway: &mut Gateway, local: &mut impl LocalExtents, now: Time) {
        while let Ok(Message { volume, mut call, answer }) = self.messages.try_recv() {
            let Some(slot) = self.clients.get_mut(volume) else { continue };
            if slot.is_none() {
                *slot = gateway.native_opened(volume);
            }
            let Some(client) = *slot else { continue };
            call.cookie = self.waiting.insert(answer) as u64;
            gateway.submit(now, client, call, local);
        }
    }

    /// Hands results to whoever waits for them. Returns whether there were any.
    pub fn give_results(&mut self, gateway: &mut Gateway) -> bool {
        let completions = gateway.completions();
        let had_any = !completions.is_empty();
        for Completion { cookie, result, .. } in completions.drain(..) {
            if let Some(answer) = usize::try_from(cookie).ok().and_then(|key| self.waiting.try_remove(key)) {
                answer.finish(result);
            }
        }
        had_any
    }
}
