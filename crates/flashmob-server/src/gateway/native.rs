//! Native clients' side of the loop: calls arrive over a channel, results go to their callers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;

use flashmob_core::gateway::{ClientId, Completion, Gateway, LocalExtents, NativeCall};
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::Time;
use slab::Slab;
use tokio::sync::oneshot;

use crate::net::Wake;

/// The result of a call: the bytes of a read (empty for other operations), or why it failed.
pub type NativeResult = Result<Vec<u8>, Failure>;

/// A call in progress. Await it, or block in [`Pending::wait`].
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<NativeResult>);

impl Pending {
    /// Blocks until the call has completed, also inside an async runtime, where tokio's own blocking wait panics.
    pub fn wait(self) -> NativeResult {
        struct Unpark(Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        // Constrained, a task of tokio that has used up its budget would poll in vain for ever.
        let mut call = tokio::task::unconstrained(self);
        loop {
            match Pin::new(&mut call).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => return result,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl Future for Pending {
    type Output = NativeResult;

    /// A call that the loop drops without a result fails.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NativeResult> {
        Pin::new(&mut self.0).poll(context).map(|result| result.unwrap_or(Err(Failure::ShuttingDown)))
    }
}

/// A call on its way to the loop.
#[derive(Debug)]
struct Message {
    volume: usize,
    call: NativeCall,
    answer: oneshot::Sender<NativeResult>,
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
        let (answer, pending) = oneshot::channel();
        let call = NativeCall { cookie: 0, op, flags, spans, payload };
        // If the loop has ended, the message is dropped with its answer, which fails the call.
        if self.messages.send(Message { volume, call, answer }).is_ok() {
            self.wake.wake();
        }
        Pending(pending)
    }
}

/// The loop's end.
#[derive(Debug)]
pub(super) struct NativeCalls {
    messages: Receiver<Message>,
    waiting: Slab<oneshot::Sender<NativeResult>>,
    /// The client that represents all native callers of a volume.
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

    /// Hands results to their callers. Returns whether there were any.
    pub fn give_results(&mut self, gateway: &mut Gateway) -> bool {
        let completions = gateway.completions();
        let had_any = !completions.is_empty();
        for Completion { cookie, result, .. } in completions.drain(..) {
            if let Some(answer) = usize::try_from(cookie).ok().and_then(|key| self.waiting.try_remove(key)) {
                // The caller may have dropped its end.
                let _ = answer.send(result);
            }
        }
        had_any
    }
}
