//! The server on standard streams, for one person.
//!
//! Between the protocol's library and the streams stands [`Numbered`], which holds it to two rules that the library leaves to
//! its handlers: after a request was taken back nothing more is sent for it, and no late answer is taken for the one to a later
//! request that a client gave the same id.

use super::{Principal, Recount, generate::Ends};
use crate::service::Service;
use rmcp::{
    RoleServer, ServiceExt,
    model::{
        CancelledNotificationParam, ClientNotification, GetMeta, JsonRpcMessage, ProgressToken, RequestId, ServerNotification,
    },
    service::{RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport, stdio_pipes},
};
use std::{collections::HashMap, future::Future};
use tokio_util::{either::Either, sync::CancellationToken};

/// Serves until the client closes its end, which fires `ends.left`, or until `ends.shutdown`. What was asked before is then
/// answered, if the client still reads.
pub async fn serve(service: Service, caller: Principal, ends: Ends) -> anyhow::Result<()> {
    let (input, output) = stdio_pipes();
    let transport = Numbered::new(AsyncRwTransport::new_server(input, output), ends.left.clone());
    // The library fires its token itself when it ends, which is no shutdown of ours.
    let stop = ends.shutdown.child_token();
    let running = match Box::pin(Recount::of(service, caller, ends).serve_with_ct(transport, stop)).await {
        Ok(running) => running,
        // Whoever leaves before the first request has asked for nothing.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    running.waiting().await?;
    Ok(())
}

/// A request that is not answered yet.
struct Open {
    id: RequestId,
    progress: Option<ProgressToken>,
}

/// Gives every request a number of its own, and keeps what was taken back from the client.
struct Numbered<T> {
    inner: T,
    /// By their numbers.
    open: HashMap<i64, Open>,
    last: i64,
    /// Fires at the end of the input.
    left: CancellationToken,
}

impl<T> Numbered<T> {
    fn new(inner: T, left: CancellationToken) -> Self {
        Self { inner, open: HashMap::new(), last: 0, left }
    }

    /// The newest open request that the client calls so.
    fn number_of(&self, id: &RequestId) -> Option<i64> {
        self.open.iter().filter(|(_, open)| open.id == *id).map(|(number, _)| *number).max()
    }

    fn take_in(&mut self, mut message: RxJsonRpcMessage<RoleServer>) -> RxJsonRpcMessage<RoleServer> {
        match &mut message {
            JsonRpcMessage::Request(request) => {
                self.last += 1;
                let id = std::mem::replace(&mut request.id, RequestId::Number(self.last));
                let progress = request.request.get_meta().get_progress_token();
                self.open.insert(self.last, Open { id, progress });
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &mut notification.notification {
                    self.take_back(&mut cancelled.params);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        message
    }

    /// What is unknown, or was answered already, names nothing.
    fn take_back(&mut self, params: &mut CancelledNotificationParam) {
        let number = params.request_id.as_ref().and_then(|id| self.number_of(id));
        if let Some(number) = number {
            self.open.remove(&number);
        }
        params.request_id = number.map(RequestId::Number);
    }

    /// What the client gets to see of a message, if anything.
    fn give_out(&mut self, mut message: TxJsonRpcMessage<RoleServer>) -> Option<TxJsonRpcMessage<RoleServer>> {
        match &mut message {
            JsonRpcMessage::Response(response) => response.id = self.close(&response.id)?,
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &mut error.id {
                    *id = self.close(id)?;
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::ProgressNotification(progress) = &notification.notification {
                    let token = Some(&progress.params.progress_token);
                    self.open.values().find(|open| open.progress.as_ref() == token)?;
                }
            }
            JsonRpcMessage::Request(_) => {}
        }
        Some(message)
    }

    fn close(&mut self, number: &RequestId) -> Option<RequestId> {
        let RequestId::Number(number) = number else { return None };
        self.open.remove(number).map(|open| open.id)
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Numbered<T> {
    type Error = T::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleServer>) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match self.give_out(message) {
            Some(message) => Either::Left(self.inner.send(message)),
            None => Either::Right(std::future::ready(Ok(()))),
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let message = self.inner.receive().await;
        if message.is_none() {
            self.left.cancel();
        }
        message.map(|message| self.take_in(message))
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{ClientJsonRpcMessage, ErrorData, ProgressNotification, ProgressNotificationParam, ServerJsonRpcMessage};
    use serde_json::{Value, json};

    /// What nothing is sent through.
    fn numbered() -> Numbered<()> {
        Numbered::new((), CancellationToken::new())
    }

    fn received(message: Value) -> ClientJsonRpcMessage {
        serde_json::from_value(message).unwrap()
    }

    fn call(id: &Value) -> ClientJsonRpcMessage {
        let params = json!({"name": "generate_report", "arguments": {}, "_meta": {"progressToken": "p"}});
        received(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    }

    fn cancelled(id: &Value) -> ClientJsonRpcMessage {
        received(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
    }

    fn number(message: &ClientJsonRpcMessage) -> RequestId {
        let JsonRpcMessage::Request(request) = message else { panic!("{message:?}") };
        request.id.clone()
    }

    fn answer(number: RequestId) -> ServerJsonRpcMessage {
        JsonRpcMessage::error(ErrorData::internal_error("test", None), Some(number))
    }

    fn progress() -> ServerJsonRpcMessage {
        let token = ProgressToken(RequestId::String("p".into()));
        let progress = ProgressNotification::new(ProgressNotificationParam::new(token, 1.0));
        JsonRpcMessage::notification(progress.into())
    }

    fn id(message: Option<ServerJsonRpcMessage>) -> Option<RequestId> {
        match message? {
            JsonRpcMessage::Error(error) => error.id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_has_the_clients_id_and_comes_once() {
        let mut line = numbered();
        for client in [json!(7), json!("seven")] {
            let message = call(&client);
            let asked = number(&message);
            let taken = number(&line.take_in(message));
            assert_ne!(taken, asked);
            assert_eq!(id(line.give_out(answer(taken.clone()))), Some(asked));
            assert!(line.give_out(answer(taken)).is_none());
        }
        assert!(line.open.is_empty());
    }

    #[test]
    fn nothing_more_is_sent_for_a_request_that_was_taken_back() {
        let mut line = numbered();
        let taken = number(&line.take_in(call(&json!(7))));
        assert!(line.give_out(progress()).is_some());
        let JsonRpcMessage::Notification(told) = line.take_in(cancelled(&json!(7))) else { panic!() };
        let ClientNotification::CancelledNotification(told) = told.notification else { panic!() };
        assert_eq!(told.params.request_id, Some(taken.clone()), "the library knows it by its number");
        assert!(line.give_out(progress()).is_none());
        assert!(line.give_out(answer(taken)).is_none());
    }

    #[test]
    fn an_id_that_is_used_again_is_another_request() {
        let mut line = numbered();
        let first = number(&line.take_in(call(&json!(7))));
        line.take_in(cancelled(&json!(7)));
        let second = number(&line.take_in(call(&json!(7))));
        assert!(line.give_out(answer(first)).is_none());
        assert_eq!(id(line.give_out(answer(second))), Some(RequestId::Number(7)));
        let JsonRpcMessage::Notification(told) = line.take_in(cancelled(&json!(7))) else { panic!() };
        let ClientNotification::CancelledNotification(told) = told.notification else { panic!() };
        assert_eq!(told.params.request_id, None, "a late one names nothing");
    }
}
